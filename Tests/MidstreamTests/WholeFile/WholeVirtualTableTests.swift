@testable import Midstream
import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

/// Virtual tables move with their whole file, all at once, and with the tables in which they keep their content.
@Suite struct WholeVirtualTableTests {
    private let folder = TemporaryFolder()
    private var old: String { folder.file("old.db") }
    private var new: String { folder.file("new.db") }

    struct Module: CustomTestStringConvertible, Sendable {
        let name: String
        /// Creates and fills table `f`, and what keeps `f` up to date with `t`.
        let sql: String
        let queries: [String]
        var needs: SQLiteFeature?
        /// A statement that tells whether the table is whole.
        var check: String?
        var isAvailable: Bool { needs?.isAvailable ?? true }
        var testDescription: String { name }
    }

    private static func synced(_ insert: String, _ delete: String) -> String {
        """
        CREATE TRIGGER t_ai AFTER INSERT ON t BEGIN \(insert); END;
        CREATE TRIGGER t_bd BEFORE DELETE ON t BEGIN \(delete); END;
        """
    }

    static let modules = [
        Module(
            name: "fts5, external content",
            sql: "CREATE VIRTUAL TABLE f USING fts5(a, content='t', content_rowid='id');"
                + synced(
                    "INSERT INTO f(rowid, a) VALUES (NEW.id, NEW.a)",
                    "INSERT INTO f(f, rowid, a) VALUES ('delete', OLD.id, OLD.a)"
                ) + "INSERT INTO f(f) VALUES ('rebuild');",
            queries: [
                "SELECT rowid FROM f WHERE f MATCH 'w3' ORDER BY rowid", "SELECT rowid, a FROM f WHERE f MATCH 'n17'",
            ],
            needs: .fullText5,
            check: "INSERT INTO f(f) VALUES ('integrity-check')"
        ),
        Module(
            name: "fts5, own content",
            sql:
                "CREATE VIRTUAL TABLE f USING fts5(a); INSERT INTO f(rowid, a) SELECT id, a FROM t; DELETE FROM f WHERE rowid = 4;",
            queries: [
                "SELECT rowid, a FROM f WHERE f MATCH 'w3' ORDER BY rank, rowid", "SELECT count(*), sum(rowid) FROM f",
            ],
            needs: .fullText5,
            check: "INSERT INTO f(f) VALUES ('integrity-check')"
        ),
        Module(
            name: "fts4",
            sql: "CREATE VIRTUAL TABLE f USING fts4(a); INSERT INTO f(docid, a) SELECT id, a FROM t;"
                + synced("INSERT INTO f(docid, a) VALUES (NEW.id, NEW.a)", "DELETE FROM f WHERE docid = OLD.id"),
            queries: [
                "SELECT docid, a, snippet(f) FROM f WHERE f MATCH 'w3' ORDER BY docid", "SELECT count(*) FROM f",
            ],
            check: "INSERT INTO f(f) VALUES ('integrity-check')"
        ),
        Module(
            name: "rtree",
            sql: "CREATE VIRTUAL TABLE f USING rtree(id, low, high); INSERT INTO f SELECT id, id, id + 1 FROM t;",
            queries: ["SELECT id FROM f WHERE low > 17 AND high < 40 ORDER BY id"]
        ),
    ]

    private static let rows = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
        INSERT INTO t SELECT i, 'w' || i % 7 || ' n' || i FROM n;
        CREATE TABLE f_notes(x); INSERT INTO f_notes VALUES (1);
        """

    private func open(_ retirement: SourceRetirement = .keep) throws -> Database {
        try Database(path: new, movingAllOf: .file(old), retirement: retirement)
    }

    /// Runs the same statements on a copy by plain SQLite, and compares.
    private func compare(_ module: Module, _ native: Connection, _ database: Database) throws {
        for query in module.queries + ["SELECT * FROM t ORDER BY id"] {
            #expect(texts(try database.fetchAll(query)) == texts(try native.fetchAll(query)), "\(query)")
        }
    }

    @Test(arguments: modules) func theyComeWithTheFileAndAreWrittenWhileItMoves(_ module: Module) throws {
        guard module.isAvailable else { return }
        let source = try Connection(path: old)
        try source.execute(script: Self.rows + module.sql)
        source.close()
        Files.copyDatabase(old, to: folder.file("native.db"))
        let native = try Connection(path: folder.file("native.db"))
        let database = try open()
        try compare(module, native, database)
        for (rows, statement) in [
            (20, "INSERT INTO t VALUES (101, 'w3 new')"), (0, "DELETE FROM t WHERE id IN (3, 17, 59)"),
            (20, "DELETE FROM t WHERE id = 101"), (0, "INSERT INTO t VALUES (NULL, 'n17 again')"),
        ] {
            try database.stepMigration(rows: Int64(rows))
            try native.execute(statement)
            try database.execute(statement)
            try compare(module, native, database)
        }
        try finishMigration(database)
        try compare(module, native, database)
        database.close()
        let plain = try Connection(path: new)
        if let check = module.check { try plain.execute(check) }
        #expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        let schema = "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2"
        #expect(texts(try plain.fetchAll(schema)) == texts(try native.fetchAll(schema)))
        plain.close()
        try Database.wipeSource(atPath: old, movedTo: new)
        #expect(!Files.exists(old))
    }

    /// The content is copied byte for byte, so that no module is asked for its content.
    @Test(arguments: modules) func theirContentIsThatOfTheSource(_ module: Module) throws {
        guard module.isAvailable else { return }
        let source = try Connection(path: old)
        try source.execute(script: Self.rows + module.sql)
        let database = try open()
        database.close()
        let plain = try Connection(path: new)
        let names = texts(
            try source.fetchAll(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'f\\_%' ESCAPE '\\' AND name <> 'f_notes'"
            )
        )
        #expect(!names.isEmpty)
        for name in names {
            let query = "SELECT * FROM \(name) ORDER BY 1, 2"
            #expect(try plain.fetchAll(query).map(\.values) == source.fetchAll(query).map(\.values), "\(name)")
        }
    }

    /// Otherwise the writes of an old build would be lost.
    @Test(arguments: modules) func writesOfTheSourcesAreRefusedAndReadsAreNot(_ module: Module) throws {
        guard module.isAvailable else { return }
        let source = try Connection(path: old)
        try source.execute(script: Self.rows + module.sql)
        let before = try module.queries.map { texts(try source.fetchAll($0)) }
        let database = try open()
        let write =
            module.name == "rtree" ? "INSERT INTO f VALUES (500, 1, 2)" : "INSERT INTO f(rowid, a) VALUES (500, 'w3')"
        #expect(throws: SQLiteError.self) { try source.execute(write) }
        #expect(try module.queries.map { texts(try source.fetchAll($0)) } == before)
        try finishMigration(database)
        #expect(throws: SQLiteError.self) { try source.execute(write) }
        #expect(try source.fetchValue(Int64.self, "SELECT x FROM f_notes") == 1)
    }

    @Test func theyReturnToNoSource() throws {
        let source = try Connection(path: old)
        try source.execute(script: Self.rows + Self.modules[2].sql)
        let database = try open()
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.code == .unsupported && error?.message.contains("virtual table f") == true)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM f") == 60)
    }

    /// The process that makes the file dies once the source's virtual tables refuse writes. After that, an old build
    /// changes the source or does not.
    @Test(arguments: ["", "CREATE TABLE later(x)"]) func aFileWhoseMakerHasDiedIsMadeOrTakenBack(_ change: String)
        throws
    {
        let source = try Connection(path: old)
        try source.execute(script: Self.rows + Self.modules[2].sql)
        _ = try WholeFile.create(new, nil, from: old, nil)
        try source.transaction { try VirtualTables(source, "main").fence(for: "new.db") }
        #expect(throws: SQLiteError.self) { try source.execute("INSERT INTO f(a) VALUES ('x')") }
        if !change.isEmpty {
            try source.execute(change)
            let error = #expect(throws: MigrationError.self) { _ = try open() }
            #expect(error?.code == .sourceChanged)
            #expect(!Files.exists(new))
            try source.execute("INSERT INTO f(docid, a) VALUES (61, 'w3')")
        }
        let database = try open()
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM f") == (change.isEmpty ? 60 : 61))
    }

    /// Midstream does not care what the application does with the module.
    @Test func aModuleThatIsNotKnownHereComesAlong() throws {
        let source = try Connection(path: old)
        try source.execute(
            script: Self.rows + """
                CREATE TABLE g_data(k, v); INSERT INTO g_data(rowid, k, v) VALUES (7, 1, 2);
                PRAGMA writable_schema = ON;
                INSERT INTO sqlite_master VALUES ('table', 'g', 'g', 0, 'CREATE VIRTUAL TABLE g USING unknown(x)');
                PRAGMA writable_schema = OFF;
                """
        )
        source.close()
        let database = try open()
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT rowid, * FROM g_data")) == ["7|1|2"])
        #expect(
            try database.fetchValue(String.self, "SELECT sql FROM sqlite_master WHERE name = 'g'")
                == "CREATE VIRTUAL TABLE g USING unknown(x)"
        )
    }

    // MARK: Single tables

    /// If both files have tables of the same names, these would seem to collide.
    @Test(arguments: modules) func noFilterIsAskedAboutWhatTheyKeep(_ module: Module) throws {
        guard module.isAvailable else { return }
        for path in [old, new] {
            let plain = try Connection(path: path)
            try plain.execute(script: Self.rows + module.sql)
            if path == new { try plain.execute(script: "DELETE FROM t; DELETE FROM f_notes") }
        }
        let database = try Database(path: new)
        let asked = Mutex<[String]>([])
        try database.addMigration(source: .file(old)) { table in
            asked.withLock { $0.append(table.name) }
            table.sourceTable = table.name
            table.firesTriggers = false
        }
        #expect(Set(asked.withLock(\.self)) == ["t", "f_notes"])
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 60)
    }

    @Test func aTableInWhichAVirtualOneKeepsItsContentIsNoSource() throws {
        try Connection(path: old).execute(script: Self.rows + Self.modules[2].sql)
        let database = try Database(path: new)
        try database.execute("CREATE TABLE words(docid INTEGER PRIMARY KEY, c0a)")
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(old)) { $0.sourceTable = "f_content" }
        }
        #expect(error?.code == .unsupported && error?.message.contains("virtual table f") == true)
        #expect(texts(try database.fetchAll("SELECT name FROM sqlite_master")) == ["words"])
    }

    /// SQLite attaches no file with such a view or trigger.
    @Test(arguments: [
        "CREATE VIEW v AS SELECT * FROM main.t", "CREATE TRIGGER v AFTER INSERT ON t BEGIN SELECT * FROM main.t; END",
    ]) func aSourceWhoseViewNamesMainIsRefusedBeforeAnythingIsDone(_ sql: String) throws {
        let plain = try Connection(path: old)
        try plain.execute(script: Self.rows)
        do { try plain.execute(sql) } catch { return }
        plain.close()
        let before = try MovingFixture.objects(old)
        let error = #expect(throws: MigrationError.self) { _ = try open() }
        #expect(
            error?.code == .unsupported && error?.message.contains("without the schema's name") == true,
            "\(String(describing: error))"
        )
        #expect(!Files.exists(new))
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)")
        let second = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(old)) { $0.sourceTable = "t" }
        }
        #expect(second?.code == .unsupported)
        #expect(texts(try database.fetchAll("SELECT name FROM sqlite_master")) == ["t"])
        #expect(try MovingFixture.objects(old) == before)
    }
}
