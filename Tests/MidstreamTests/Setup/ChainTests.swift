import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Tables that move on before all their rows have come.
@Suite struct ChainTests {
    private let folder = TemporaryFolder()

    private var old: MigrationSource { .file(folder.file("old.db")) }

    private static let third: @Sendable (inout TableMigration) -> Void = { table in
        guard table.name == "c" else { return }
        table.sourceTable = "b"
        table.columns["label"] = .expression("name || '/' || n")
        table.columns["m"] = .column("n")
        table.unmatchedColumns = .ignored
    }

    private static let second: @Sendable (inout TableMigration) -> Void = { table in
        guard table.name == "b" else { return }
        table.sourceTable = "a"
        table.columns["n"] = .column("count")
        table.columns["extra"] = .value(.text("e"))
    }

    /// - Parameter type: The type of the middle table's column. With a type other than TEXT, the values of the last
    ///   table are converted twice.
    private func begin(_ type: String, first: Int64, second: Int64) throws -> (Database, Connection) {
        let rows = (1...9).map { "(\($0), 'n\($0)', '0\($0)')" }.joined(separator: ", ")
        let source =
            "CREATE TABLE a(id INTEGER PRIMARY KEY, name TEXT UNIQUE, count TEXT); INSERT INTO a VALUES \(rows)"
        let connection = try Connection(path: folder.file("old.db"))
        try connection.execute(script: source)
        connection.close()
        let b = "CREATE TABLE b(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n \(type), extra TEXT)"
        let c = "CREATE TABLE c(label TEXT, id INTEGER PRIMARY KEY, name TEXT UNIQUE, m TEXT, flag DEFAULT 7)"
        let native = try Connection(path: folder.file("plain.db"))
        try native.execute(script: "\(source);\(b);\(c); INSERT INTO b SELECT id, name, count, 'e' FROM a")
        let database = try Database(path: folder.file("new.db"))
        try database.execute(b)
        try database.addMigration(source: old, filter: Self.second)
        if first > 0 { try database.stepMigration(rows: first) }
        for sql in [
            "UPDATE b SET n = 77 WHERE id = 8", "DELETE FROM b WHERE name = 'n6'",
            "INSERT INTO b(name, n) VALUES ('new', 1)",
        ] {
            try database.execute(sql)
            try native.execute(sql)
        }
        try native.execute(
            script: "INSERT INTO c(id, label, name, m) SELECT id, name || '/' || n, name, n FROM b; DROP TABLE b"
        )
        try database.execute(c)
        try database.addMigration(source: .sameDatabase, filter: Self.third)
        if second > 0 { try database.stepMigration(rows: second) }
        return (database, native)
    }

    @Test(arguments: ["TEXT", "INTEGER"], [(0, 0), (3, 0), (0, 2), (4, 3)] as [(Int64, Int64)])
    func aTargetIsTheSourceOfALaterMigration(_ type: String, _ moved: (first: Int64, second: Int64)) throws {
        let (opened, native) = try begin(type, first: moved.first, second: moved.second)
        var database = opened
        let all = "SELECT *, rowid FROM c ORDER BY id"
        func expectSame(_ sql: String = all, _ location: SourceLocation = #_sourceLocation) throws {
            #expect(
                texts(try database.fetchAll(sql)) == texts(try native.fetchAll(sql)),
                "\(sql)",
                sourceLocation: location
            )
        }
        try expectSame()
        for sql in [
            "UPDATE c SET label = 'x' WHERE m = '77'", "UPDATE c SET name = 'n6' WHERE id = 2",
            "DELETE FROM c WHERE id IN (3, 9)",
            "INSERT INTO c(name) VALUES ('n9')", "INSERT OR REPLACE INTO c(id, name) VALUES (1, 'n7')",
        ] {
            try database.execute(sql)
            try native.execute(sql)
            try expectSame()
            try expectSame("SELECT count(*), max(name), min(m) FROM c WHERE flag = 7")
            try database.stepMigration(rows: 1)
        }
        // The next launch makes the same calls.
        database.close()
        database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: old, filter: Self.second)
        try database.addMigration(source: .sameDatabase, filter: Self.third)
        try expectSame()
        try finishMigration(database)
        try expectSame()
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        #expect(try database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
        #expect(try MovingFixture.count("a", in: folder.file("old.db")) == 0)
    }

    /// If nothing has to be converted twice, the first move goes on. Otherwise it ends first.
    @Test(arguments: [("TEXT", 2), ("INTEGER", 1)]) func whatCanBeJoinedIsNotMovedAtOnce(_ type: String, _ moving: Int)
        throws
    {
        let (database, _) = try begin(type, first: 0, second: 0)
        let copying = try database.readMigrationProgress().tables.filter { $0.phase == .copying }
        #expect(copying.count == moving)
        #expect(copying.allSatisfy { $0.name == "c" })
    }

    /// The last table makes a column by itself. For that it needs no column of the middle table, whose name has
    /// changed.
    @Test(.needs(.generatedColumns), arguments: [0, 2] as [Int64])
    func aGeneratedColumnIsMadeWhereTheMiddleHasItUnderAnotherName(_ moved: Int64) throws {
        let columns = "(\"two words\" TEXT, \"_x\" BLOB, made AS (\"_x\" || \"two words\"))"
        let source = try Connection(path: folder.file("old.db"))
        try source.execute("CREATE TABLE a\(columns)")
        try source.execute("INSERT INTO a(\"two words\", _x) VALUES ('a', 'x'), ('b', 'y'), ('c', 'z')")
        source.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE b\(columns); CREATE TABLE c\(columns)")
        try database.addMigration(source: old) { if $0.name == "b" { $0.sourceTable = "a" } }
        try database.stepMigration(rows: moved)
        try database.execute("ALTER TABLE b RENAME COLUMN made TO renamed")
        try database.addMigration(source: .sameDatabase) { table in
            guard table.name == "c" else { return }
            table.sourceTable = "b"
            table.unmatchedColumns = .ignored
        }
        #expect(texts(try database.fetchAll("SELECT made, _x FROM c ORDER BY 1")) == ["xa|x", "yb|y", "zc|z"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT made FROM c ORDER BY 1")) == ["xa", "yb", "zc"])
    }

    /// The table's rows go to its source, whatever would take them meanwhile.
    @Test(arguments: [0, 4] as [Int64]) func aTableThatReturnsDoesNotMoveOn(_ moved: Int64) throws {
        let source = try Connection(path: folder.file("old.db"))
        try source.execute(
            script:
                "CREATE TABLE a(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO a VALUES (1, '1'), (2, '2'), (3, '3'), (4, '4'), (5, '5')"
        )
        source.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE b(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE c(id INTEGER PRIMARY KEY, v TEXT)"
        )
        let other = try Database(path: folder.file("new.db"))
        try database.addMigration(source: old) { if $0.name == "b" { $0.sourceTable = "a" } }
        try database.stepMigration(rows: moved)
        let takesOver: @Sendable (inout TableMigration) -> Void = { if $0.name == "c" { $0.sourceTable = "b" } }
        try database.cancelMigration(of: ["b"])
        for database in [database, other] {
            let error = #expect(throws: MigrationError.self) {
                try database.addMigration(source: .sameDatabase, filter: takesOver)
            }
            #expect(
                error?.code == .misuse && error?.message.contains("moved back to table a") == true,
                "\(String(describing: error))"
            )
        }
        try database.execute("INSERT INTO b VALUES (9, 'new')")
        try finishMigration(database)
        try database.addMigration(source: .sameDatabase, filter: takesOver)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM c") == 0)
        database.close()
        other.close()
        let returned = try Connection(path: folder.file("old.db"))
        #expect(texts(try returned.fetchAll("SELECT id FROM a ORDER BY id")) == ["1", "2", "3", "4", "5", "9"])
    }

    /// This holds in whatever order the tables were created.
    @Test(arguments: ["abc", "acb", "bac", "bca", "cab", "cba"]) func oneCallMayBeginAChain(_ order: String) throws {
        let database = try Database(path: folder.file("new.db"))
        for name in order { try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, v)") }
        try database.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
        try database.addMigration(source: .sameDatabase) { table in
            if table.name == "b" { table.sourceTable = "a" }
            if table.name == "c" { table.sourceTable = "b" }
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM c") == 3)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT sum(v) FROM c") == 6)
    }

    /// If rows that are to come cannot go on directly, they come at once, as with two calls.
    @Test(arguments: ["condition", "shared"], ["abcd", "dcba", "cbda"])
    func oneCallMayBeginAChainThatCannotBeJoined(_ why: String, _ order: String) throws {
        let database = try Database(path: folder.file("new.db"))
        for name in order { try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, v)") }
        for id in 1...30 { try database.execute("INSERT INTO a VALUES (?, ?)", [id, id]) }
        try database.addMigration(source: .sameDatabase) { table in
            switch table.name {
            case "b": table.sourceTable = "a"
            case "c":
                table.sourceTable = "b"
                table.condition = "v < 20"
            case "d" where why == "shared":
                table.sourceTable = "b"
                table.condition = "v >= 20"
            default: break
            }
        }
        func check() throws {
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM c") == 19)
            if why == "shared" { #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM d") == 11) }
        }
        try check()
        try finishMigration(database)
        try check()
    }

    @Test func aCircleIsRefused() throws {
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY)")
        try database.execute("INSERT INTO a VALUES (1); INSERT INTO b VALUES (2)")
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .sameDatabase) { table in
                table.sourceTable = table.name == "a" ? "b" : "a"
                table.condition = "id > 0"
            }
        }
        #expect(error?.code == .unsupported || error?.code == .misuse, "\(String(describing: error))")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM a") == 1)
        #expect(try database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
    }
}
