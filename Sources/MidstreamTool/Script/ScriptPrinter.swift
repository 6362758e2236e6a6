internal import SQLiteConnection

/// Shows the results of a script's statements and dot commands.
protocol ScriptPrinter: AnyObject {
    /// Called when a statement runs, perhaps once more. Nothing of an earlier attempt counts.
    func begin(_ statement: Statement)
    func row(_ statement: Statement)
    func end(_ sql: String, changes: Int64, lastInsertRowID: Int64)
    func fail(_ sql: String, line: Int, _ error: any Error)

    func status(_ status: MigrationStatus)
    func step(_ name: String, moved: Int64, outcome: String, _ status: MigrationStatus)
    func help()
    func quit()
    func fail(command: String, line: Int, _ error: any Error)
}
