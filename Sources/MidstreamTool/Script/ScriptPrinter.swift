internal import SQLiteConnection

/// Shows what a script's statements and dot commands give.
protocol ScriptPrinter: AnyObject {
    /// A statement runs now, perhaps anew. Nothing of an attempt before counts.
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
