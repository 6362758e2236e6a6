internal import SQLiteConnection

/// Shows each statement of a script, and each dot command, as one JSON object on its own line.
final class JSONPrinter: ScriptPrinter {
    private let output: Output
    private var columns: [JSON] = []
    private var rows: [JSON] = []

    init(_ output: Output) {
        self.output = output
    }

    func begin(_ statement: Statement) {
        columns = statement.columnNames.names.map { JSON($0) }
        rows = []
    }

    func row(_ statement: Statement) {
        rows.append(JSON(array: (0..<statement.columnCount).map { JSON(statement.value(at: $0)) }))
    }

    func end(_ sql: String, changes: Int64, lastInsertRowID: Int64) {
        write([
            "sql": JSON(sql),
            "columns": JSON(array: columns),
            "rows": JSON(array: rows),
            "changes": JSON(changes),
            "lastInsertRowid": JSON(lastInsertRowID),
        ])
        rows = []
    }

    func fail(_ sql: String, line _: Int, _ error: any Error) {
        write(["sql": JSON(sql), "error": JSON(error: error)])
    }

    func status(_ status: MigrationStatus) { write(["status": status.json]) }

    func step(_ name: String, moved: Int64, outcome: String, _ status: MigrationStatus) {
        write([
            name: JSON(object: [
                "moved": JSON(moved),
                "outcome": JSON(outcome),
                "finished": JSON(status.isFinished),
                "tables": status.tablesJSON,
            ])
        ])
    }

    func help() {
        let members = DotCommand.list.map { ($0.command, JSON($0.meaning)) }
        write(["help": JSON(members: members)])
    }

    func quit() { write(["quit": JSON(object: [:])]) }

    func fail(command: String, line _: Int, _ error: any Error) {
        write(["command": JSON(command), "error": JSON(error: error)])
    }

    private func write(_ members: KeyValuePairs<String, JSON>) {
        output.write(JSON(object: members).bytes)
        output.write("\n")
    }
}
