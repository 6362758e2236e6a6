import Midstream
import SQLiteConnection
import Testing

/// Targets that take parts of one source table. One of them returns its rows.
@Suite struct SharedSourceTests {
    private let folder = TemporaryFolder()
    private static let withKey = "(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)"

    private var source: String { folder.file("old.db") }

    /// Rows 1 to 20; the odd ones meet `b < 2`.
    private func makeSource(_ columns: String, in file: String = "old.db") throws {
        let old = try Connection(path: folder.file(file))
        defer { old.close() }
        try old.execute(
            script: """
                CREATE TABLE s\(columns);
                INSERT INTO s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
                SELECT i, 'a' || i, CASE WHEN i % 2 THEN i % 4 / 2 ELSE 2 + i % 3 END FROM n
                """
        )
    }

    private func open(_ name: String, _ columns: String, _ condition: String) throws -> Database {
        let database = try Database(path: folder.file(name))
        try database.execute("CREATE TABLE IF NOT EXISTS t\(columns)")
        try database.addMigration(source: .file(source)) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "s"
            table.condition = condition
        }
        return database
    }

    private func rows(_ sql: String, in file: String = "old.db") throws -> [String] {
        let old = try Connection(path: folder.file(file))
        defer { old.close() }
        return try texts(old.fetchAll(sql))
    }

    /// The write changes the smallest or the largest rowid of the source when the written row returns.
    @Test(
        arguments: [withKey, "(id INTEGER, a TEXT, b INTEGER)"],
        [
            "INSERT INTO t(id, a, b) VALUES (500, 'new', 1)", "INSERT INTO t(id, a, b) VALUES (-500, 'new', 1)",
            "DELETE FROM t WHERE id = 1", "DELETE FROM t",
        ]
    )
    func theOtherTargetsGoOnWhenOneHasReturned(_ columns: String, _ write: String) throws {
        try makeSource(columns)
        let a = try open("a.db", columns, "b < 2")
        var b = try open("b.db", columns, "b >= 2")
        // The third target does not tell its rows apart by rowids.
        let keyed = "(id INTEGER NOT NULL PRIMARY KEY, a TEXT, b INTEGER) WITHOUT ROWID"
        let c = columns == Self.withKey ? try open("c.db", keyed, "b > 4 AND b > 2") : nil
        try a.stepMigration(rows: 5)
        try b.stepMigration(rows: 3)
        try a.execute(write.replacing("t(id", with: columns == Self.withKey ? "t(id" : "t(rowid"))
        let expected = try texts(a.fetchAll("SELECT id, a, b FROM t ORDER BY id"))
        try a.cancelMigration()
        try finishMigration(a, steps: 200)
        #expect(try rows("SELECT id, a, b FROM s WHERE b < 2 ORDER BY id") == expected)
        #expect(try b.fetchValue(String.self, "SELECT count(*) || ' ' || sum(id) FROM t") == "10 110")
        try b.stepMigration(rows: 3)
        b.close()
        b = try open("b.db", columns, "b >= 2")
        #expect(try b.fetchValue(String.self, "SELECT count(*) || ' ' || sum(id) FROM t") == "10 110")
        try finishMigration(b, steps: 200)
        #expect(try b.fetchValue(String.self, "SELECT count(*) || ' ' || sum(id) FROM t") == "10 110")
        if let c {
            c.close()
            try finishMigration(open("c.db", keyed, "b > 4 AND b > 2"), steps: 200)
        }
        #expect(try rows("SELECT id, a, b FROM s WHERE b < 2 ORDER BY id") == expected)
    }

    /// If all rows belong to the target that returns, they are deleted before the first one is copied.
    @Test func aSourceThatIsEmptyForAWhileIsStillTheOneThatWasClaimed() throws {
        try makeSource(Self.withKey)
        let old = try Connection(path: source)
        try old.execute("DELETE FROM s WHERE b >= 2")
        old.close()
        let a = try open("a.db", Self.withKey, "b < 2")
        var b = try open("b.db", Self.withKey, "b >= 2")
        try a.stepMigration(rows: 5)
        try a.execute("DELETE FROM t")
        try a.execute("INSERT INTO t VALUES (7, 'new', 1)")
        try a.cancelMigration()
        try finishMigration(a, steps: 200)
        b.close()
        b = try open("b.db", Self.withKey, "b >= 2")
        try finishMigration(b, steps: 200)
        #expect(try b.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
        #expect(try rows("SELECT * FROM s") == ["7|new|1"])
    }

    /// Where the two targets are.
    enum Place: CaseIterable, Sendable {
        case twoFiles, oneFile, fileOfTheSource
    }

    @Test(arguments: [0, 5] as [Int64], Place.allCases)
    func aRowThatAnotherTargetWouldTakeStaysAndIsTold(_ passed: Int64, _ place: Place) throws {
        let (a, b): (Database, Database)
        let source = place == .fileOfTheSource ? "a.db" : "old.db"
        let other = place == .twoFiles ? "t" : "u"
        try makeSource(Self.withKey, in: source)
        if place == .twoFiles {
            a = try open("a.db", Self.withKey, "b < 2")
            b = try open("b.db", Self.withKey, "b >= 2 OR a GLOB 'z*'")
        } else {
            a = try Database(path: folder.file("a.db"))
            try a.execute("CREATE TABLE t\(Self.withKey)")
            try a.execute("CREATE TABLE u\(Self.withKey)")
            try a.addMigration(source: source == "a.db" ? .sameDatabase : .file(self.source)) { table in
                guard table.name != "s" else { return }
                table.sourceTable = "s"
                table.condition = table.name == "t" ? "b < 2" : "b >= 2 OR a GLOB 'z*'"
            }
            b = a
        }
        try a.stepMigration(rows: 5, of: "t")
        if passed > 0 { try b.stepMigration(rows: passed, of: other) }
        try a.execute("UPDATE t SET a = 'zebra' WHERE id = 3")
        try a.cancelMigration(of: ["t"])
        let error = #expect(throws: MigrationError.self) {
            for _ in 0..<100 { try a.stepMigration(rows: 100, of: "t") }
        }
        #expect(error?.code == .rowRefused && error?.key == 3)
        #expect(try texts(a.fetchAll("SELECT * FROM t WHERE id BETWEEN 2 AND 4")) == ["3|zebra|1"])
        #expect(try a.fetchValue(Int.self, "SELECT count(*) FROM t") == 10)
        #expect(try b.fetchValue(Int.self, "SELECT count(*) FROM \(other)") == 10)
        try a.execute("UPDATE t SET a = 'horse' WHERE id = 3")
        for _ in 0..<100 { try a.stepMigration(rows: 100, of: "t") }
        #expect(try rows("SELECT count(*) FROM s WHERE b < 2", in: source) == ["10"])
        try finishMigration(b, steps: 200)
        #expect(try b.fetchValue(Int.self, "SELECT count(*) FROM \(other)") == 10)
    }

    /// The target that returns knows nothing of the other's rows, and may have written a row with the same key. Rowids
    /// that are no column may come to be the same by themselves.
    @Test(arguments: [(withKey, 18), ("(id INTEGER, a TEXT, b INTEGER)", 20)])
    func aRowWithTheKeyOfAnotherTargetsRowLeavesThatWhereItIs(_ columns: String, _ key: Int) throws {
        try makeSource(columns)
        let a = try open("a.db", columns, "b < 2")
        let b = try open("b.db", columns, "b >= 2")
        let others = "SELECT rowid, * FROM t ORDER BY rowid"
        let expected = try texts(b.fetchAll(others))
        try a.execute("INSERT INTO t VALUES (18, 'new', 1)")
        try a.cancelMigration()
        let error = #expect(throws: MigrationError.self) { try finishMigration(a, steps: 200) }
        #expect(error?.code == .rowRefused && error?.key == Int64(key))
        #expect(try texts(a.fetchAll("SELECT rowid FROM t WHERE a = 'new'")) == ["\(key)"])
        #expect(try texts(b.fetchAll(others)) == expected)
        try a.execute("UPDATE t SET rowid = 1800 WHERE a = 'new'")
        try finishMigration(a, steps: 200)
        try finishMigration(b, steps: 200)
        #expect(try texts(b.fetchAll(others)) == expected)
        #expect(try rows("SELECT count(*) FROM s WHERE b < 2") == ["11"])
    }

    /// Rows that move within their file belong to the table there, even when they have moved and the source's table has
    /// stayed.
    @Test(
        arguments: [SourceRetirement.drop, .keep],
        [(0, nil), (1, nil), (4, nil), (1, "id < 3")] as [(Int64, String?)]
    )
    func whatMovesWithinItsFileIsNotTakenByAnother(
        _ retirement: SourceRetirement,
        _ first: (moved: Int64, condition: String?)
    ) throws {
        let moved = first.moved
        let folder = TemporaryFolder()
        let create = "(id INTEGER PRIMARY KEY, v)"
        let database = try Database(path: folder.file("app.db"))
        try database.execute("CREATE TABLE a\(create); CREATE TABLE b\(create)")
        try database.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
        try database.addMigration(source: .sameDatabase, retirement: retirement) {
            $0.sourceTable = $0.name == "b" ? "a" : nil
            if $0.name == "b" { $0.condition = first.condition }
        }
        if moved > 3 { try finishMigration(database) } else { try database.stepMigration(rows: moved) }
        try database.execute("UPDATE b SET v = 9 WHERE id = 2")
        let isGone = moved > 3 && retirement == .drop
        let other = try Database(path: folder.file("other.db"))
        try other.execute("CREATE TABLE c\(create)")
        for condition in [nil, "id < 3", "id >= 3"] {
            let error = #expect(throws: MigrationError.self) {
                try other.addMigration(source: .file(folder.file("app.db"))) { table in
                    guard table.name == "c" else { return }
                    table.sourceTable = "a"
                    table.condition = condition
                }
            }
            #expect(error?.code == (isGone ? .missingTable : .foreignState), "\(String(describing: error))")
            #expect(isGone || error?.message.contains("table b of app.db") == true, "\(error?.message ?? "none")")
        }
        #expect(try other.fetchValue(Int.self, "SELECT count(*) FROM c") == 0)
        try finishMigration(other)
        try finishMigration(database)
        #expect(
            texts(try database.fetchAll("SELECT * FROM b ORDER BY id")) == ["1|1", "2|9"]
                + (first.condition == nil ? ["3|3"] : [])
        )
        // A refused call has not removed the table's fence.
        #expect(isGone || (try? database.execute("INSERT INTO a VALUES (7, 7)")) == nil)
    }

    /// Rows that move to another file are not taken within their own file.
    @Test(arguments: [0, 1, 4] as [Int64]) func whatMovesToAnotherFileIsNotTakenWithinItsOwn(_ moved: Int64) throws {
        let folder = TemporaryFolder()
        let create = "(id INTEGER PRIMARY KEY, v)"
        let old = try Database(path: folder.file("old.db"))
        try old.execute("CREATE TABLE a\(create); CREATE TABLE c\(create)")
        try old.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE b\(create)")
        try database.addMigration(source: .file(folder.file("old.db")), retirement: .keep) {
            $0.sourceTable = $0.name == "b" ? "a" : nil
        }
        if moved > 3 { try finishMigration(database) } else { try database.stepMigration(rows: moved) }
        for condition in [nil, "id < 3"] {
            let error = #expect(throws: MigrationError.self) {
                try old.addMigration(source: .sameDatabase) { table in
                    guard table.name == "c" else { return }
                    table.sourceTable = "a"
                    table.condition = condition
                }
            }
            #expect([.misuse, .foreignState].contains(error?.code), "\(String(describing: error))")
            #expect(error?.message.contains("table b of new.db") == true, "\(error?.message ?? "none")")
        }
        try finishMigration(old)
        try finishMigration(database)
        #expect(try old.fetchValue(Int.self, "SELECT count(*) FROM c") == 0)
        #expect(texts(try database.fetchAll("SELECT * FROM b ORDER BY id")) == ["1|1", "2|2", "3|3"])
    }

    /// One part has moved to another file, and its table has stayed. That part stays closed when another part, which
    /// moves within the file, returns.
    @Test func eachOfTwoPartsHasAFenceOfItsOwn() throws {
        let folder = TemporaryFolder()
        let create = "(id INTEGER PRIMARY KEY, v)"
        let old = try Database(path: folder.file("old.db"))
        try old.execute("CREATE TABLE a\(create); CREATE TABLE c\(create)")
        try old.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE b\(create)")
        func add(_ database: Database, _ source: MigrationSource, _ name: String, _ condition: String) throws {
            try database.addMigration(source: source, retirement: .keep) { table in
                guard table.name == name else { return }
                table.sourceTable = "a"
                table.condition = condition
            }
        }
        try add(database, .file(folder.file("old.db")), "b", "id < 3")
        try finishMigration(database)
        try add(old, .sameDatabase, "c", "id >= 3")
        try old.cancelMigration()
        try finishMigration(old)
        let error = #expect(throws: SQLiteError.self) { try old.execute("UPDATE a SET v = 9 WHERE id = 1") }
        #expect(error?.message.contains("to table b of new.db") == true, "\(String(describing: error))")
    }

    /// One table has its part. The other one moves into it with what it has yet to get. The same calls are made again
    /// for each.
    @Test(arguments: [0, 4] as [Int64]) func twoPartsMayMeetAgain(_ moved: Int64) throws {
        try makeSource(Self.withKey)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(Self.withKey); CREATE TABLE u\(Self.withKey)")
        func add(_ name: String, _ condition: String) throws {
            try database.addMigration(source: .file(source), retirement: .keep) { table in
                guard table.name == name else { return }
                table.sourceTable = "s"
                table.condition = condition
            }
        }
        try add("t", "b < 2")
        try finishMigration(database)
        try add("u", "b >= 2")
        if moved > 0 { try database.stepMigration(rows: moved) }
        try database.addMigration(source: .sameDatabase) { if $0.name == "t" { $0.sourceTable = "u" } }
        for _ in 0..<20 {
            try add("t", "b < 2")
            let error = #expect(throws: MigrationError.self) { try add("t", "b < 1") }
            #expect(error?.code == .misuse)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 20)
            let isWhole = try database.readMigrationProgress().tables.allSatisfy { $0.phase != .copying }
            if isWhole { break }
            try database.stepMigration(rows: 3)
        }
        try finishMigration(database)
        try add("t", "b < 2")
        #expect(try database.readMigrationProgress().isFinished)
        #expect(try texts(database.fetchAll("SELECT * FROM t ORDER BY id")) == rows("SELECT * FROM s ORDER BY id"))
    }

    /// The two parts meet within one file, and the table in which they meet moves on before either move has ended.
    @Test(arguments: [0, 4] as [Int64]) func twoPartsMayMeetAndMoveOn(_ moved: Int64) throws {
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE s\(Self.withKey); CREATE TABLE t\(Self.withKey)")
        try database.execute("CREATE TABLE u\(Self.withKey); CREATE TABLE v\(Self.withKey)")
        for id in 1...20 { try database.execute("INSERT INTO s VALUES (?, 'a', ?)", [id, id % 4]) }
        let all = try texts(database.fetchAll("SELECT * FROM s ORDER BY id"))
        func split() throws {
            try database.addMigration(source: .sameDatabase, retirement: .keep) { table in
                guard ["t", "u"].contains(table.name) else { return }
                table.sourceTable = "s"
                table.condition = table.name == "t" ? "b < 2" : "b >= 2"
            }
        }
        try split()
        try database.addMigration(source: .sameDatabase, retirement: .keep) {
            if $0.name == "t" { $0.sourceTable = "u" }
        }
        if moved > 0 { try database.stepMigration(rows: moved) }
        try database.addMigration(source: .sameDatabase, retirement: .keep) {
            if $0.name == "v" { $0.sourceTable = "t" }
        }
        for _ in 0..<30 {
            try split()
            let error = #expect(throws: MigrationError.self) {
                try database.addMigration(source: .sameDatabase, retirement: .keep) { table in
                    guard table.name == "t" else { return }
                    table.sourceTable = "s"
                    table.condition = "b < 1"
                }
            }
            #expect(error != nil)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM v") == 20)
            if try database.readMigrationProgress().isFinished { break }
            try database.stepMigration(rows: 3)
        }
        try finishMigration(database)
        try split()
        #expect(try database.readMigrationProgress().isFinished)
        #expect(try texts(database.fetchAll("SELECT * FROM v ORDER BY id")) == all)
    }
}
