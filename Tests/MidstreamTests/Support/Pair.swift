import Midstream
import SQLiteConnection

/// A source with rows, a target without rows, and a plain database that has the rows from the start.
struct Pair {
    let folder = TemporaryFolder()
    let target: String
    let source: String
    let native: Connection
    let database: Database

    /// - Parameters:
    ///   - schema: Creates the tables, in all three databases.
    ///   - rows: Fills the tables, in the source and in the plain database.
    ///   - extra: What the target and the plain database have besides: other tables with rows, views, triggers.
    ///   - moved: How many rows of each table have moved.
    init(
        schema: String,
        rows: String,
        extra: String = "",
        tables: Set<String>,
        moved: Int64 = 0,
        configuration: DatabaseConfiguration = DatabaseConfiguration()
    ) throws {
        target = folder.file("new.db")
        source = folder.file("old.db")
        let old = try Connection(path: source)
        try old.execute(script: schema + ";" + rows)
        old.close()
        native = try Connection(path: folder.file("plain.db"))
        if configuration.enforcesForeignKeys { try native.configure(.foreignKeys, true) }
        try native.execute(script: schema + ";" + rows + ";" + extra)
        database = try Database(path: target, configuration: configuration)
        try database.execute(schema + ";" + extra)
        try database.addMigration(source: .file(source), allowsNoTables: tables.isEmpty) { table in
            if tables.contains(table.name) { table.sourceTable = table.name }
            table.firesTriggers = false
        }
        if moved > 0 { try database.stepMigration(rows: moved) }
    }

    func finish() throws {
        var steps = 0
        while try !database.stepMigration().isFinished {
            steps += 1
            if steps > 10_000 { throw MigrationStalled() }
        }
    }
}

struct MigrationStalled: Error {}

/// Rows as texts, for expectations that are easy to read.
func texts(_ rows: [Row]) -> [String] {
    rows.map { row in
        row.values.map { value in
            switch value {
            case .null: "NULL"
            case .integer(let integer): "\(integer)"
            case .real(let real): "\(real)"
            case .text(let text): text
            case .blob(let bytes): "x\(bytes)"
            }
        }
        .joined(separator: "|")
    }
}
