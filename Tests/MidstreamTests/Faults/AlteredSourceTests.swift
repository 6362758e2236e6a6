import Midstream
import MidstreamTesting
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A source whose table a program without Midstream alters, vacuums or makes anew while rows have yet to move.
@Suite struct AlteredSourceTests {
    private let folder = TemporaryFolder()
    private var source: String { folder.file("old.db") }
    private var target: String { folder.file("new.db") }

    private func make(_ columns: String, sourceColumns: String? = nil, rows: Int = 20) throws {
        try plain(source, "CREATE TABLE old_t(\(sourceColumns ?? columns))")
        try plain(
            source,
            "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows)) "
                + "INSERT INTO old_t(a, b) SELECT 'a' || i, 'b' || i FROM n"
        )
        try plain(target, "CREATE TABLE t(\(columns))")
    }

    private func plain(_ path: String, _ sql: String) throws {
        let connection = try Connection(path: path)
        try connection.execute(script: sql)
        connection.close()
    }

    private func begin(_ settings: @escaping @Sendable (inout TableMigration) -> Void = { _ in }) throws -> Database {
        let database = try Database(path: target)
        try database.addMigration(source: .file(source)) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "old_t"
            settings(&table)
        }
        try database.stepMigration(rows: 10)
        return database
    }

    private static let everyText = "SELECT group_concat(a || b, ' ') FROM (SELECT a, b FROM t ORDER BY rowid)"

    private static func texts(_ rows: Int = 20) -> String { (1...rows).map { "a\($0)b\($0)" }.joined(separator: " ") }

    private static let words = [
        ("rowid", "rowid <> 15 AND rowid > 0"), ("_ROWID_", "[_rowid_] <> 15"), ("true", "(id <> 15) = TRUE"),
    ]

    /// SQLite takes the column then.
    @Test(arguments: words, [false, true])
    func aWordThatIsNoColumnIsNotReadAsOne(_ word: (name: String, condition: String), _ isOpenedAnew: Bool) throws {
        guard word.name != "true" || Connection.libraryVersionNumber >= 3_023_000 else { return }
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        var database = try begin {
            $0.condition = word.condition
            $0.columns["b"] = .expression(word.name == "true" ? "iif(true, b, 0)" : "rowid || ''")
        }
        let rows = "SELECT count(*), min(a), max(b) FROM t"
        let expected = MidstreamTests.texts(try database.fetchAll(rows))
        #expect(expected[0].hasPrefix("19|"))
        try plain(source, "ALTER TABLE old_t ADD COLUMN \(word.name) DEFAULT 15")
        func check() {
            for body in [
                { _ = try database.fetchAll(rows) }, { try database.execute("INSERT INTO t(id) VALUES (19)") },
                { try database.stepMigration(rows: 5) },
            ] {
                // Through SQLite, its text alone comes.
                let error = #expect(throws: (any Error).self) { try body() }
                #expect(error.map { "\($0)".contains("sourceChanged: source table old_t has a column") } == true)
            }
        }
        if isOpenedAnew {
            database.close()
            let error = #expect(throws: MigrationError.self) {
                database = try Database(path: target)
                _ = try database.fetchAll(rows)
            }
            #expect(error?.code == .sourceChanged)
        } else {
            check()
        }
        guard SQLiteFeature.dropColumn.isAvailable else { return }
        try plain(source, "ALTER TABLE old_t DROP COLUMN \(word.name)")
        database.close()
        database = try Database(path: target)
        #expect(MidstreamTests.texts(try database.fetchAll(rows)) == expected)
        try finishMigration(database)
        #expect(MidstreamTests.texts(try database.fetchAll(rows)) == expected)
    }

    @Test func aWordThatIsAColumnIsInDoubleQuotes() throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT, oid INTEGER DEFAULT 3")
        for condition in ["oid = 3", "[oid] = 3", "\"rowid\" = 3"] {
            let error = #expect(throws: MigrationError.self) { try begin { $0.condition = condition } }
            #expect(error?.code == .unequalTables && error?.message.contains("double quotes") == true)
        }
        let database = try begin { $0.condition = "\"oid\" = 3 AND rowid > 2" }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 18)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 18)
    }

    /// What the source is altered by, and back.
    private static let alterations = [
        ["RENAME COLUMN a TO title", "RENAME COLUMN title TO a"],
        ["RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"],
    ]

    /// `"a"` is the text 'a' to SQLite where there is no such column.
    @Test(.needs(.renameColumn), arguments: alterations, [false, true])
    func columnsThatGetOtherNamesAreNotReadAsText(_ alterations: [String], _ isMapped: Bool) throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let database = try begin { table in
            if isMapped { table.columns["a"] = .expression("\"a\" || ''") }
        }
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
        // Who opens it later cannot know what names the columns had.
        try database.execute("UPDATE t SET b = b WHERE id = 17")
        let away = alterations.count == 2 ? [alterations[0]] : alterations
        for text in away { try plain(source, "ALTER TABLE old_t \(text)") }
        #expect(throws: (any Error).self) { try database.fetchValue(String.self, Self.everyText) }
        #expect(throws: (any Error).self) { try database.fetchValue(String.self, "SELECT b FROM t WHERE id = 15") }
        #expect(throws: (any Error).self) { try database.execute("UPDATE t SET b = 'x' WHERE id = 18") }
        #expect(throws: (any Error).self) { try finishMigration(database) }
        let back = alterations.count == 2 ? [alterations[1]] : alterations
        for text in back { try plain(source, "ALTER TABLE old_t \(text)") }
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
    }

    /// Nor where all rows move at once.
    @Test(.needs(.renameColumn), arguments: ["index", "drain", "rebuild"], [false, true])
    func columnsThatGetOtherNamesDoNotMoveAsText(_ way: String, _ isInBlock: Bool) throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let database = try begin()
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
        func moveAll(_ meanwhile: () throws -> Void = {}) throws {
            if !isInBlock { try meanwhile() }
            try database.write { access in
                try access.execute("CREATE TABLE IF NOT EXISTS other(x)")
                if isInBlock { try meanwhile() }
                switch way {
                case "index": try access.execute("CREATE INDEX by_b ON t(b)")
                case "drain":
                    try access.execute(
                        "INSERT INTO t SELECT 21, 'a21', 'b' || (21 * (changes() >= 0)) UNION ALL SELECT 22, 'a22', 'b22'"
                    )
                default:
                    try access.rebuild("t") {
                        $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT, a TEXT UNIQUE)"
                    }
                }
            }
        }
        let error = #expect(throws: MigrationError.self) {
            try moveAll { try plain(source, "ALTER TABLE old_t RENAME COLUMN a TO title") }
        }
        #expect(error?.code == .sourceChanged || error?.code == .unequalTables)
        try plain(source, "ALTER TABLE old_t RENAME COLUMN title TO a")
        try moveAll()
        let count = way == "drain" ? 22 : 20
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts(count))
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts(count))
    }

    @Test(.needs(.renameColumn), arguments: [ColumnMapping.column("a"), .expression("\"a\" || ''")])
    func aMappedColumnThatIsGoneIsMissedAtOpening(_ origin: ColumnMapping) throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        try begin { $0.columns["a"] = origin }.close()
        try plain(source, "ALTER TABLE old_t RENAME COLUMN a TO title")
        let error = #expect(throws: MigrationError.self) {
            let database = try Database(path: target)
            _ = try database.fetchValue(String.self, Self.everyText)
        }
        #expect(error?.code == .sourceChanged)
        try plain(source, "ALTER TABLE old_t RENAME COLUMN title TO a")
        let database = try Database(path: target)
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
    }

    @Test func textInDoubleQuotesIsRefusedInExpressions() throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let error = #expect(throws: MigrationError.self) {
            _ = try begin { $0.columns["a"] = .expression("a || \"x\"") }
        }
        #expect(error?.code == .unequalTables)
        #expect(error?.message.contains("single quotes") == true)
    }

    /// Columns that are new in the source have no part in it.
    @Test func aColumnMoreInTheSourceChangesNothing() throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let database = try begin()
        try plain(source, "ALTER TABLE old_t ADD COLUMN c")
        try plain(source, "CREATE TABLE another(x)")
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
    }

    /// Rows that have moved have nothing there, and the others would have the source's.
    @Test(.needs(.renameColumn), arguments: ["ADD COLUMN B", "RENAME COLUMN z TO b"], [true, false])
    func aColumnThatTheTargetGetsByANameOfTheSourcesIsNoticed(_ change: String, _ isIgnored: Bool) throws {
        try plain(source, "CREATE TABLE old_t(id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
        try plain(source, "INSERT INTO old_t VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2')")
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, z TEXT)")
        let database = try Database(path: target)
        try database.addMigration(source: .file(source)) { table in
            table.sourceTable = "old_t"
            table.columns["z"] = .expression(isIgnored ? "upper(a)" : "upper(b)")
            if isIgnored { table.unmatchedColumns = .ignored }
        }
        try database.stepMigration(rows: 1)
        #expect(try database.fetchAll("SELECT * FROM t").count == 2)
        try plain(target, "ALTER TABLE t \(change)")
        for _ in 0..<2 {
            let error = #expect(throws: MigrationError.self) { try database.fetchAll("SELECT * FROM t") }
            #expect(error?.code == .unequalTables)
        }
        let error = #expect(throws: MigrationError.self) { try database.stepMigration() }
        #expect(error?.code == .unequalTables)
        #expect(throws: MigrationError.self) { try Database(path: target) }
    }

    /// Its name would be that of the rows' keys, and is the column's.
    @Test func aColumnThatIsCalledRowidInTheSourceIsNoticed() throws {
        try make("a TEXT, b TEXT")
        let database = try begin()
        #expect(try database.fetchAll("SELECT a FROM t").count == 20)
        try plain(source, "ALTER TABLE old_t ADD COLUMN rowid")
        let rows = try? database.fetchAll("SELECT a FROM t")
        #expect(rows == nil || rows?.count == 20)
        #expect(throws: (any Error).self) { try finishMigration(database) }
    }

    /// Without an INTEGER PRIMARY KEY, rows get other rowids: those that are pending would be others.
    @Test func aVacuumThatGivesOtherRowidsIsNoticedByOpenDatabases() throws {
        try make("a TEXT, b TEXT")
        try plain(source, "DELETE FROM old_t WHERE rowid < 5")
        let database = try begin()
        let before = try database.fetchValue(Int.self, "SELECT count(*) FROM t")
        #expect(before == 16)
        #expect(try database.fetchAll("SELECT a FROM t").count == 16)
        try plain(source, "VACUUM")
        #expect(throws: (any Error).self) { try database.fetchAll("SELECT a FROM t") }
        #expect(throws: (any Error).self) { try database.execute("UPDATE t SET b = 'x' WHERE a = 'a18'") }
        #expect(throws: (any Error).self) { try database.execute("DELETE FROM t WHERE a = 'a18'") }
        #expect(throws: (any Error).self) { try finishMigration(database) }
    }

    @Test(arguments: ["insert", "update", "delete"]) func aTargetWithoutOneOfItsTriggersIsRefused(_ event: String)
        throws
    {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        try begin().close()
        let connection = try Connection(path: target)
        let names = try connection.fetchAll(
            "SELECT name FROM sqlite_master WHERE name LIKE 'midstream\\_\(event)\\_%' ESCAPE '\\'"
        )
        for name in names { try connection.execute("DROP TRIGGER \(name.get(0, as: String.self))") }
        connection.close()
        #expect(names.count == 1)
        let error = #expect(throws: MigrationError.self) {
            let database = try Database(path: target)
            _ = try database.fetchValue(String.self, Self.everyText)
        }
        #expect(error?.code == .unequalTables)
    }
}
