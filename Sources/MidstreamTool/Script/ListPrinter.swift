internal import SQLiteConnection

/// Shows a script's results as the list mode of the sqlite3 shell does. Steps show nothing.
final class ListPrinter: ScriptPrinter {
    private let output: Output

    init(_ output: Output) {
        self.output = output
    }

    func begin(_: Statement) {}

    func row(_ statement: Statement) { output.write(ListFormat.row(of: statement)) }

    func end(_: String, changes _: Int64, lastInsertRowID _: Int64) {}

    func fail(_: String, line: Int, _ error: any Error) {
        output.error("Error: near line \(line): \(message(of: error))")
    }

    func status(_ status: MigrationStatus) { output.write(status.text) }

    func step(_: String, moved _: Int64, outcome _: String, _: MigrationStatus) {}

    func help() {
        for (command, meaning) in DotCommand.list {
            output.line(command + String(repeating: " ", count: max(1, 16 - command.count)) + meaning)
        }
    }

    func quit() {}

    func fail(command _: String, line: Int, _ error: any Error) {
        output.error("Error: near line \(line): \(message(of: error))")
    }
}
