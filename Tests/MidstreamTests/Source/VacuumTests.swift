import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Programs without Midstream run VACUUM while tables move whose rowids are no column.
@Suite struct VacuumTests {
    private let folder = TemporaryFolder()
    private var file: String { folder.file("new.db") }
    private var plainFile: String { folder.file("plain.db") }

    enum Kind: String, CaseIterable {
        case sameFile, rebuilt, targetOfTwoFiles
    }

    private static let texts =
        "SELECT group_concat(rowid || a || b, ' ') FROM (SELECT rowid, a, b FROM t ORDER BY rowid)"

    private func plain(_ path: String, _ script: String) throws {
        let connection = try Connection(path: path)
        defer { connection.close() }
        try connection.execute(script: script)
    }

    /// Rows with gaps between their rowids.
    private static func fill(_ table: String) -> String {
        "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) "
            + "INSERT INTO \(table)(rowid, a, b) SELECT i * 3, 'a' || i, 'b' || i FROM n;"
    }

    /// A table of which a half has moved, and the same table in plain SQLite.
    private func begin(_ kind: Kind, _ columns: String = "a TEXT UNIQUE, b TEXT") throws -> Database {
        try plain(plainFile, "CREATE TABLE t(\(columns)); \(Self.fill("t"))")
        switch kind {
        case .sameFile: try plain(file, "CREATE TABLE t(\(columns)); CREATE TABLE old(\(columns)); \(Self.fill("old"))")
        case .rebuilt: try plain(file, "CREATE TABLE t(\(columns)); \(Self.fill("t"))")
        case .targetOfTwoFiles:
            try plain(file, "CREATE TABLE t(\(columns))")
            try plain(folder.file("old.db"), "CREATE TABLE old(\(columns)); \(Self.fill("old"))")
        }
        let database = try Database(path: file)
        if kind == .rebuilt {
            _ = try database.write { access in
                try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(\(columns), c INTEGER DEFAULT 5)"
                    table.columns["c"] = .defaultValue
                    table.rowsCopiedAtOnce = 0
                }
            }
        } else {
            let source: MigrationSource = kind == .sameFile ? .sameDatabase : .file(folder.file("old.db"))
            try database.addMigration(source: source) { if $0.name == "t" { $0.sourceTable = "old" } }
        }
        try database.stepMigration(rows: 20)
        for sql in ["UPDATE t SET b = 'new' WHERE a = 'a30'", "DELETE FROM t WHERE a IN ('a3', 'a33')"] {
            try database.execute(sql)
            try plain(plainFile, sql)
        }
        return database
    }

    private func expected() throws -> String? {
        let connection = try Connection(path: plainFile)
        defer { connection.close() }
        return try connection.fetchValue(Self.texts)
    }

    @Test(arguments: Kind.allCases)
    func aVacuumOfRowidsThatTellRowsApartIsRefusedUntilTheyHaveMoved(_ kind: Kind) throws {
        let database = try begin(kind)
        let error = #expect(throws: SQLiteError.self) { try plain(file, "VACUUM") }
        #expect(error?.message.contains("VACUUM_must_wait") == true)
        let other = try Connection(path: file)
        // Such a program is not kept from other work.
        for sql in ["ANALYZE", "REINDEX", "CREATE TABLE other(x)", "ALTER TABLE other ADD COLUMN y"] {
            try other.execute(sql)
        }
        #expect(try other.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        other.close()
        #expect(try database.fetchValue(String.self, Self.texts) == expected())
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.texts) == expected())
        database.close()
        try plain(file, "VACUUM")
        let names = try MovingFixture.objects(file)
        #expect(!names.contains { $0.contains("midstream_kept") })
    }

    @Test(arguments: Kind.allCases)
    func aVacuumOfTablesWithAnIntegerPrimaryKeyChangesNothing(_ kind: Kind) throws {
        let database = try begin(kind, "id INTEGER PRIMARY KEY, a TEXT UNIQUE, b TEXT")
        try plain(file, "VACUUM")
        #expect(try database.fetchValue(String.self, Self.texts) == expected())
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.texts) == expected())
    }

    @Test(arguments: Kind.allCases)
    func aVacuumThroughMidstreamMovesTheRowsFirst(_ kind: Kind) throws {
        let database = try begin(kind)
        try database.execute("VACUUM")
        try plain(plainFile, "VACUUM")
        #expect(try database.fetchValue(String.self, Self.texts) == expected())
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.texts) == expected())
    }

    /// The program may have a collation of that name by chance.
    @Test(arguments: Kind.allCases, [false, true])
    func rowidsThatWereChangedAllTheSameAreToldOf(_ kind: Kind, _ isOpenedAnew: Bool) throws {
        var database = try begin(kind)
        if isOpenedAnew { database.close() }
        let other = try Connection(path: file)
        try other.vacuumAllTheSame()
        other.close()
        func told(_ body: () throws -> Void) {
            let error = #expect(throws: MigrationError.self) { try body() }
            #expect(error?.code == .foreignState)
            #expect(error?.message.contains("the rowids of table") == true)
        }
        if isOpenedAnew {
            told {
                database = try Database(path: file)
                _ = try database.fetchAll("SELECT * FROM t")
            }
        } else {
            told { _ = try database.fetchAll("SELECT * FROM t") }
            told { try database.execute("DELETE FROM t") }
            told { try database.stepMigration(rows: 5) }
        }
    }

    @Test func theTableThatKeepsVacuumOutStaysWhileAnyTableNeedsIt() throws {
        let columns = "a TEXT, b TEXT"
        try plain(file, "CREATE TABLE t(\(columns)); CREATE TABLE u(\(columns))")
        try plain(
            folder.file("old.db"),
            "CREATE TABLE t(\(columns)); \(Self.fill("t")) CREATE TABLE u(\(columns)); \(Self.fill("u"))"
        )
        let database = try Database(path: file)
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        for _ in 0..<20 { try database.stepMigration(of: "t") }
        #expect(try database.readMigrationProgress().tables.first { $0.name == "t" }?.phase != .copying)
        #expect(throws: SQLiteError.self) { try plain(file, "VACUUM") }
        try database.cancelMigration(of: ["u"])
        #expect(throws: SQLiteError.self) { try plain(file, "VACUUM") }
        try finishMigration(database)
        database.close()
        try plain(file, "VACUUM")
        #expect(try MovingFixture.count("t", in: file) == 40)
        #expect(try MovingFixture.count("u", in: folder.file("old.db")) == 40)
    }
}
