import Midstream
import SQLiteConnection

/// A pair of files in a folder of its own: `old.db` with a table `old_accounts`, and `new.db` with an empty `accounts`.
struct MovingFixture: Sendable {
    let folder: TemporaryFolder
    let rows: Int
    let isSameFile: Bool

    var source: String { isSameFile ? target : folder.file("old.db") }
    var target: String { folder.file("new.db") }
    /// The sum of all amounts.
    var total: Int64 { Int64(rows) * 100 }

    static let columns = "(id INTEGER PRIMARY KEY, owner TEXT, amount INTEGER NOT NULL)"

    init(rows: Int, isSameFile: Bool = false, in folder: TemporaryFolder = TemporaryFolder()) throws {
        self.folder = folder
        self.rows = rows
        self.isSameFile = isSameFile
        let old = try Connection(path: source)
        try old.execute("CREATE TABLE old_accounts\(Self.columns)")
        try old.execute("CREATE INDEX old_by_owner ON old_accounts(owner)")
        try old.execute(
            """
            INSERT INTO old_accounts WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
            SELECT i, 'o' || (i % 9), 100 FROM n
            """
        )
        old.close()
        let new = try Connection(path: target)
        try new.execute("CREATE TABLE accounts\(Self.columns)")
        try new.execute("CREATE INDEX by_owner ON accounts(owner)")
        new.close()
    }

    /// Opens the target as a program does that knows of the migration.
    func open(retirement: SourceRetirement = .drop) throws -> Database {
        let database = try Database(path: target)
        try Self.addMigration(database, source, retirement: retirement)
        return database
    }

    static func addMigration(
        _ database: Database,
        _ source: String,
        retirement: SourceRetirement = .drop
    ) throws {
        try database.addMigration(source: .file(source), retirement: retirement) { table in
            if table.name == "accounts" { table.sourceTable = "old_accounts" }
        }
    }

    /// How many rows a table has, counted by SQLite alone.
    static func count(_ table: String, in path: String) throws -> Int64? {
        let connection = try Connection(path: path, options: OpenOptions(access: .readOnly))
        defer { connection.close() }
        return try connection.fetchValue("SELECT count(*) FROM \(table)")
    }

    static func objects(_ path: String) throws -> [String] {
        let connection = try Connection(path: path, options: OpenOptions(access: .readOnly))
        defer { connection.close() }
        return try connection.fetchAll(
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY 1"
        )
        .map { try $0.get(0) }
    }
}

/// Moves everything, however many steps it takes.
func finishMigration(_ database: Database, steps: Int = 10_000) throws {
    var left = steps
    while try !database.stepMigration().isFinished, left > 0 { left -= 1 }
    precondition(left > 0, "the migration does not come to its end")
}
