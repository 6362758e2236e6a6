import Midstream
import MidstreamTesting
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A program without Midstream alters, vacuums or makes anew a source's table whose rows have yet to move.
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

    /// SQLite takes the word for the column then.
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
                // Through SQLite, only the error's text arrives.
                let error = #expect(throws: (any Error).self) { try body() }
                let words = "has given source table old_t a column \(word.name)"
                #expect(error.map { "\($0)".lowercased().contains(words.lowercased()) } == true)
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

    /// The name means the rowid, until another column takes one of the rowid's other names.
    @Test func theColumnOfTheRowIDMayHaveOneOfItsNames() throws {
        try make("rowid INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let database = try begin {
            $0.condition = "rowid > 2 AND \"rowid\" > 0 AND _rowid_ <> 15"
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 17)
        try plain(source, "ALTER TABLE old_t ADD COLUMN _rowid_ DEFAULT 15")
        let error = #expect(throws: MigrationError.self) { try database.stepMigration(rows: 5) }
        #expect(error?.code == .sourceChanged && error?.message.contains("source table old_t a column _rowid_") == true)
        guard SQLiteFeature.dropColumn.isAvailable else { return }
        try plain(source, "ALTER TABLE old_t DROP COLUMN _rowid_")
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 17)
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

    /// The statements that alter the source, and those that undo the change.
    private static let alterations = [
        ["RENAME COLUMN a TO title", "RENAME COLUMN title TO a"],
        ["RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"],
    ]

    /// If there is no column `a`, SQLite takes `"a"` for the text 'a'.
    @Test(.needs(.renameColumn), arguments: alterations, [false, true])
    func columnsThatGetOtherNamesAreNotReadAsText(_ alterations: [String], _ isMapped: Bool) throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let database = try begin { table in
            if isMapped { table.columns["a"] = .expression("\"a\" || ''") }
        }
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
        // A process that opens the file later cannot know which names the columns had.
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

    /// This holds as well if all rows move at once.
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

    enum When: CaseIterable, Sendable { case inTheMidst, cancelled, returning, moved }

    /// The fence has gone with the table that has the rows.
    @Test(arguments: When.allCases, [true, false])
    func aTableThatGetsTheNameOfTheSourcesIsNotTakenForIt(_ when: When, _ isSameFile: Bool) throws {
        let (old, native) = (isSameFile ? target : source, try Connection(path: ":memory:"))
        let tables = """
            CREATE TABLE old_t(id INTEGER PRIMARY KEY, a TEXT);
            CREATE TABLE other(id INTEGER PRIMARY KEY, a TEXT);
            WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO old_t SELECT i, 'a' || i FROM n;
            INSERT INTO other SELECT id, 'other' || id FROM old_t;
            """
        for connection in [native, try Connection(path: old)] { try connection.execute(script: tables) }
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)")
        var database = try Database(path: target)
        try database.addMigration(source: isSameFile ? .sameDatabase : .file(source)) {
            if $0.name == "t" { $0.sourceTable = "old_t" }
        }
        if when == .moved {
            while try database.readMigrationProgress().tables.first?.phase == .copying {
                try database.stepMigration(rows: 20)
            }
            try #require(try database.readMigrationProgress().tables.first?.phase == .copied)
        } else {
            try database.stepMigration(rows: 15)
        }
        if when != .moved { try database.execute("UPDATE t SET a = 'mine' WHERE id % 3 = 0") }
        if when == .cancelled || when == .returning { try database.cancelMigration() }
        if when == .returning { try database.stepMigration(rows: 1) }
        let swap =
            "ALTER TABLE old_t RENAME TO z; ALTER TABLE other RENAME TO old_t; ALTER TABLE z RENAME TO other"
        try plain(old, swap)
        func check() {
            // If the rows have moved, another step may come first.
            var bodies = [{ for _ in 0..<(when == .moved ? 5 : 1) { try database.stepMigration(rows: 5) } }]
            if when != .moved {
                bodies.append { _ = try database.fetchAll("SELECT * FROM t") }
                bodies.append { try database.execute("UPDATE t SET a = 'x' WHERE id = 35") }
            }
            for body in bodies {
                let error = #expect(throws: (any Error).self) { try body() }
                #expect(
                    error.map { "\($0)".contains("old_t, from which table t is moving, was renamed to other") } == true
                )
            }
        }
        check()
        database.close()
        if when == .moved {
            database = try Database(path: target)
            check()
            database.close()
        } else {
            let error = #expect(throws: MigrationError.self) {
                database = try Database(path: target)
                _ = try database.fetchAll("SELECT * FROM t")
            }
            #expect(error?.code == .sourceChanged)
        }
        try plain(old, swap)
        database = try Database(path: target)
        try finishMigration(database)
        let moved = "SELECT id, CASE WHEN id % 3 = 0 AND \(when != .moved ? 1 : 0) THEN 'mine' ELSE a END FROM old_t"
        let isBack = when == .cancelled || when == .returning
        let found = try Connection(path: isBack ? old : target).fetchAll("SELECT * FROM \(isBack ? "old_t" : "t")")
        #expect(MidstreamTests.texts(found) == MidstreamTests.texts(try native.fetchAll(moved)))
        let others = "SELECT * FROM other"
        #expect(
            try MidstreamTests.texts(Connection(path: old).fetchAll(others))
                == MidstreamTests.texts(native.fetchAll(others))
        )
    }

    @Test func noRowIsLookedForInASourceThatWasVacuumed() throws {
        try make("id INTEGER, a TEXT, b TEXT")
        try plain(source, "DELETE FROM old_t WHERE rowid < 3")
        let database = try begin()
        try database.execute("UPDATE t SET a = a WHERE rowid = 15")
        try Connection(path: source).vacuumAllTheSame()
        try refuse(
            [
                "INSERT INTO t(rowid, a) VALUES (19, 'n')", "INSERT INTO t(a) VALUES ('n')",
                "UPDATE t SET rowid = 19 WHERE rowid = 4",
                "INSERT OR REPLACE INTO t(rowid, a) VALUES (19, 'n')", "SELECT * FROM t WHERE rowid = 20",
                "DELETE FROM t WHERE rowid = 20",
                "UPDATE t SET a = 'n' WHERE rowid = 20",
            ],
            by: database
        )
    }

    private func refuse(_ statements: [String], by database: Database) throws {
        for sql in statements {
            let bodies = [
                { if sql.hasPrefix("SELECT") { _ = try database.fetchAll(sql) } else { try database.execute(sql) } },
                { _ = try database.write { try $0.fetchAll(sql) } },
            ]
            for body in bodies {
                let error = #expect(throws: (any Error).self, "\(sql)") { try body() }
                #expect(error.map { "\($0)".contains("sourceChanged") } == true, "\(sql): \(String(describing: error))")
            }
        }
    }

    /// That no key is found in that table means nothing.
    @Test(arguments: [true, false], ["id INTEGER PRIMARY KEY", "id INTEGER UNIQUE", "id PRIMARY KEY"])
    func noKeyIsLookedForInASourceThatIsAnother(_ swapsTables: Bool, _ key: String) throws {
        let isKeyed = key == "id PRIMARY KEY"
        guard swapsTables || SQLiteFeature.renameColumn.isAvailable else { return }
        let columns = "(\(key), a, b TEXT UNIQUE)\(isKeyed ? " WITHOUT ROWID" : "")"
        for (table, rows) in [("old_t", 1...99), ("other", -60...(-1))] {
            let left = columns.replacing("a, b", with: "a, k TEXT UNIQUE, b")
            try plain(
                source,
                "CREATE TABLE \(table)\(left); WITH n(i) AS (SELECT \(rows.lowerBound) UNION ALL SELECT i + 1 FROM n WHERE i < \(rows.upperBound)) "
                    + "INSERT INTO \(table)(id, a, k, b) SELECT i, 1, 'k' || i, 'b' || i FROM n WHERE i % 3 = 0 OR i < 0"
            )
        }
        try plain(target, "CREATE TABLE t\(columns)")
        let database = try begin { $0.unmatchedColumns = .ignored }
        try database.execute("UPDATE t SET a = 2 WHERE id = 90")
        let expected = MidstreamTests.texts(try database.fetchAll("SELECT * FROM t ORDER BY id"))
        let (there, back) =
            swapsTables
            ? (
                "ALTER TABLE old_t RENAME TO z; ALTER TABLE other RENAME TO old_t; ALTER TABLE z RENAME TO other",
                "ALTER TABLE old_t RENAME TO z; ALTER TABLE other RENAME TO old_t; ALTER TABLE z RENAME TO other"
            )
            : (
                "ALTER TABLE old_t RENAME COLUMN b TO z; ALTER TABLE old_t RENAME COLUMN k TO b",
                "ALTER TABLE old_t RENAME COLUMN b TO k; ALTER TABLE old_t RENAME COLUMN z TO b"
            )
        try plain(source, there)
        try refuse(
            [
                "INSERT INTO t VALUES (81, 1, 'n')", "INSERT OR REPLACE INTO t VALUES (81, 1, 'n')",
                "INSERT OR IGNORE INTO t VALUES (81, 1, 'n')", "INSERT INTO t VALUES (500, 1, 'b81')",
                "REPLACE INTO t VALUES (500, 1, 'b81')", "UPDATE t SET id = 81 WHERE id = 3",
                "UPDATE OR REPLACE t SET b = 'b81' WHERE id = 3", "SELECT * FROM t WHERE id = 81",
                "SELECT * FROM t WHERE b = 'b81'",
                "SELECT EXISTS (SELECT 1 FROM t WHERE id = 81)", "UPDATE t SET a = 9 WHERE id = 81",
                "DELETE FROM t WHERE id = 81",
                "DELETE FROM t WHERE b = 'b81'", "SELECT max(id) FROM t",
            ] + (isKeyed ? [] : ["INSERT INTO t(a, b) VALUES (1, 'n')"])
                + SQLiteFeature.upsert.ifAvailable([
                    "INSERT INTO t VALUES (81, 1, 'n') ON CONFLICT(id) DO UPDATE SET a = 5"
                ]),
            by: database
        )
        try plain(source, back)
        // Midstream keeps nothing of the other table.
        #expect(MidstreamTests.texts(try database.fetchAll("SELECT id FROM t WHERE id = 81")) == ["81"])
        let error = #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO t VALUES (81, 1, 'n')") }
        #expect(error?.code.primary == .constraint)
        if !isKeyed, key.hasSuffix("KEY") {
            try database.write {
                try $0.execute("INSERT INTO t(a, b) VALUES (1, 'n')")
                #expect(try $0.fetchValue(Int.self, "SELECT id FROM t WHERE b = 'n'") == 100)
                try $0.execute("DELETE FROM t WHERE b = 'n'")
            }
        }
        database.close()
        let again = try Database(path: target)
        #expect(MidstreamTests.texts(try again.fetchAll("SELECT * FROM t ORDER BY id")) == expected)
        try finishMigration(again)
        #expect(MidstreamTests.texts(try again.fetchAll("SELECT * FROM t ORDER BY id")) == expected)
    }

    /// A column that the target does not take has the name of one that it takes.
    @Test(.needs(.renameColumn)) func aColumnThatIsNotTakenDoesNotTakeThePlaceOfOneThatIs() throws {
        try plain(source, "CREATE TABLE old_t(id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
        try plain(source, "INSERT INTO old_t VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2')")
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)")
        var database = try Database(path: target)
        try database.addMigration(source: .file(source)) { table in
            table.sourceTable = "old_t"
            table.unmatchedColumns = .ignored
        }
        try plain(source, "ALTER TABLE old_t RENAME COLUMN a TO z; ALTER TABLE old_t RENAME COLUMN b TO a")
        for change in ["", "CREATE TABLE more(x)"] {
            try plain(target, change)
            let error = #expect(throws: (any Error).self) { _ = try database.fetchAll("SELECT * FROM t") }
            #expect(error.map { "\($0)".contains("sourceChanged") } == true)
        }
        database.close()
        let error = #expect(throws: MigrationError.self) {
            database = try Database(path: target)
            try finishMigration(database)
        }
        #expect(error?.code == .sourceChanged)
        #expect(error?.message.contains("has renamed or dropped column b of source table old_t") == true)
        try plain(source, "ALTER TABLE old_t RENAME COLUMN a TO b; ALTER TABLE old_t RENAME COLUMN z TO a")
        database = try Database(path: target)
        try finishMigration(database)
        #expect(try MidstreamTests.texts(database.fetchAll("SELECT * FROM t")) == ["1|a1", "2|a2"])
    }

    /// Columns that are new in the source are no part of the move.
    @Test func aColumnMoreInTheSourceChangesNothing() throws {
        try make("id INTEGER PRIMARY KEY, a TEXT, b TEXT")
        let database = try begin()
        try plain(source, "ALTER TABLE old_t ADD COLUMN c")
        try plain(source, "CREATE TABLE another(x)")
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.everyText) == Self.texts())
    }

    /// Rows that have moved have no value in that column, and the other rows would have the source's.
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

    /// The column has the name that would mean the key of rows.
    @Test func aColumnThatIsCalledRowidInTheSourceIsNoticed() throws {
        try make("a TEXT, b TEXT")
        let database = try begin()
        #expect(try database.fetchAll("SELECT a FROM t").count == 20)
        try plain(source, "ALTER TABLE old_t ADD COLUMN rowid")
        let rows = try? database.fetchAll("SELECT a FROM t")
        #expect(rows == nil || rows?.count == 20)
        #expect(throws: (any Error).self) { try finishMigration(database) }
    }

    /// Without an INTEGER PRIMARY KEY, VACUUM gives rows other rowids: other rows would be pending.
    @Test func aVacuumThatGivesOtherRowidsIsNoticedByOpenDatabases() throws {
        try make("a TEXT, b TEXT")
        try plain(source, "DELETE FROM old_t WHERE rowid < 5")
        let database = try begin()
        let before = try database.fetchValue(Int.self, "SELECT count(*) FROM t")
        #expect(before == 16)
        #expect(try database.fetchAll("SELECT a FROM t").count == 16)
        try Connection(path: source).vacuumAllTheSame()
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
