import Midstream
import SQLiteConnection

/// A source with a few rows, `old.db`, and a target, `new.db`, into which these rows begin to move.
struct SmallMove {
    let folder = TemporaryFolder()
    let database: Database

    /// - Parameters:
    ///   - source: Makes the source's tables and rows.
    ///   - target: Makes the target's tables.
    ///   - name: The source's table, from which all tables of the target take rows.
    ///   - wish: What else is asked for of the move.
    init(
        source: String,
        target: String,
        from name: String = "t",
        _ wish: @escaping @Sendable (inout TableMigration) -> Void = { _ in }
    ) throws {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: source)
        old.close()
        database = try Database(path: folder.file("new.db"))
        try database.execute(target)
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = name
            table.firesTriggers = false
            wish(&table)
        }
    }
}
