import Midstream
import SQLiteConnection
import Testing

/// A parameter without a value is an error, wherever the rows are: NULL would wipe values that nobody meant to wipe.
@Suite struct MissingArgumentTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b UNIQUE)"
    private static let rows = """
        INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
        SELECT i, 'a' || i, nullif(i * 10, 150) FROM n
        """

    private static func pair() throws -> Pair {
        try Pair(schema: schema, rows: rows, tables: ["t"], moved: 10)
    }

    /// A text, and values for its parameters. The last parameter's value is not given first.
    private static let statements: [(sql: String, arguments: [(name: String, value: SQLiteValue)])] = [
        ("UPDATE t SET a = :a WHERE id = :id", [("id", 15), ("a", "new")]),
        ("UPDATE t SET a = $a WHERE id > @low AND id < ?9", [("a", "new"), ("?9", 18), ("low", 5)]),
        ("UPDATE t SET a = :a WHERE id IN (SELECT id FROM t WHERE b > :b)", [("a", "new"), ("b", 120)]),
        ("UPDATE t SET a = :a WHERE id + abs(random() % 1) = :id", [("a", "new"), ("id", 14)]),
        ("DELETE FROM t WHERE id = :id OR b IS :b", [("id", 12), ("b", 130)]),
        ("DELETE FROM t WHERE id = ?1 OR b IS ?3", [("?1", 3), ("?3", 140)]),
        ("INSERT INTO t VALUES (:id, :a, :b)", [("id", 30), ("a", nil), ("b", 300)]),
        ("REPLACE INTO t SELECT :id, a, b + :b FROM t WHERE id = 19", [("b", 1), ("id", 18)]),
        ("SELECT * FROM t WHERE id = :id OR b IS :b", [("id", 12), ("b", 130)]),
        ("SELECT count(*) FROM t WHERE id > :low AND a > :a", [("a", "a"), ("low", 3)]),
        ("SELECT a IS :a, count(*), max(id) FROM t WHERE id < :id GROUP BY 1", [("id", 18), ("a", "a2")]),
        ("SELECT a FROM t ORDER BY id LIMIT :limit OFFSET :offset", [("limit", 3), ("offset", 9)]),
    ]

    private static func arguments(_ named: some Sequence<(name: String, value: SQLiteValue)>) -> Arguments {
        var arguments = Arguments()
        arguments.named = Array(named)
        return arguments
    }

    enum Caller: CaseIterable {
        case database, write, read, overlay
    }

    /// Runs a statement in one of the ways that the library offers.
    private static func run(_ caller: Caller, _ pair: Pair, _ sql: String, _ arguments: Arguments) throws -> [Row] {
        switch caller {
        case .database:
            if sql.hasPrefix("SELECT") { return try pair.database.fetchAll(sql, arguments) }
            try pair.database.execute(sql, arguments)
            return []
        case .write: return try pair.database.write { try $0.fetchAll(sql, arguments) }
        case .read: return try pair.database.read { try $0.fetchAll(sql, arguments) }
        case .overlay:
            let foreign = try ForeignConnection(pair.target)
            let overlay = try foreign.install()
            defer { _ = foreign.close() }
            if sql.hasPrefix("SELECT") { return try overlay.fetchAll(sql, arguments) }
            try overlay.execute(sql, arguments)
            return []
        }
    }

    @Test(arguments: statements.indices, Caller.allCases)
    func isAnErrorThatNamesIt(index: Int, caller: Caller) throws {
        let (sql, named) = Self.statements[index]
        if caller == .read, !sql.hasPrefix("SELECT") { return }
        let pair = try Self.pair()
        let last = try #require(named.last)
        let parameter = [last.name, ":" + last.name, "@" + last.name].first {
            ":@?".contains($0.prefix(1)) && sql.contains($0)
        }
        let error = try #require(throws: SQLiteError.self) {
            _ = try Self.run(caller, pair, sql, Self.arguments(named.dropLast()))
        }
        #expect(error.code == .range)
        #expect(error.message == "no value is given for parameter \(parameter ?? ""); for NULL, give nil")
        #expect(error.sql == sql)
        let all = "SELECT * FROM t ORDER BY id"
        #expect(try pair.database.fetchAll(all) == pair.native.fetchAll(all))

        // With all values, the statement does what it does natively.
        let rows = try Self.run(caller, pair, sql, Self.arguments(named))
        #expect(try rows == pair.native.fetchAll(sql, Self.arguments(named)))
        #expect(try pair.database.fetchAll(all) == pair.native.fetchAll(all))
    }

    @Test func isAnErrorAmongValuesByPosition() throws {
        let pair = try Self.pair()
        try pair.database.write { access in
            for (sql, arguments, missing): (String, Arguments, String) in [
                ("DELETE FROM t WHERE id = ? OR b IS ?", [15], "?2"),
                ("INSERT INTO t VALUES (?, ?, ?)", [40, 1], "?3"),
                ("UPDATE t SET a = ?2 WHERE id = ?1", [15], "?2"),
                ("UPDATE t SET a = ?1 WHERE id = ?3", [15, 1], "?3"),
                ("SELECT * FROM t WHERE id = ? OR b IS ?", [15], "?2"), ("DELETE FROM t WHERE id = :id", [], ":id"),
            ] {
                let error = try #require(throws: SQLiteError.self) { try access.execute(sql, arguments) }
                #expect(error.message == "no value is given for parameter \(missing); for NULL, give nil")
            }
            // The block can go on.
            try access.execute("UPDATE t SET a = ?1 WHERE id = ?3", ["new", "no parameter has this", 15])
            #expect(try access.fetchValue(String.self, "SELECT a FROM t WHERE id = ?", [15]) == "new")
        }
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 20)
    }

    @Test func isNotWhatARunBeforeGave() throws {
        let pair = try Self.pair()
        let sql = "UPDATE t SET a = :a WHERE id = :id"
        try pair.database.execute(sql, ["a": "new", "id": 12])
        #expect(throws: SQLiteError.self) { try pair.database.execute(sql, ["id": 13]) }
        #expect(throws: SQLiteError.self) { try pair.database.execute(sql, ["a": "other"]) }
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE a IN ('new', 'other')") == 1)
    }

    @Test func isAnErrorInATextOfSeveralStatements() throws {
        let pair = try Self.pair()
        let sql = "UPDATE t SET a = 1 WHERE id = 11; UPDATE t SET a = @a WHERE id = 12"
        let error = try #require(throws: SQLiteError.self) { try pair.database.execute(sql) }
        #expect(error.message == "no value is given for parameter @a; for NULL, give nil")
        #expect(throws: SQLiteError.self) { try pair.database.execute(sql, ["a": 1]) }
        #expect(try pair.database.fetchValue(String.self, "SELECT a FROM t WHERE id = 12") == "a12")
    }

    @Test func isNoneOfARecordWhosePropertyIsNil() throws {
        struct Record: Codable {
            var id: Int64?
            var a: String?
            var b: Int?
        }
        let pair = try Self.pair()
        try pair.database.insert(Record(id: nil, a: nil, b: 7), into: "t")
        try pair.database.write { try $0.insert(Record(id: 50, a: "x", b: nil), into: "t") }
        try pair.native.insert(Record(id: nil, a: nil, b: 7), into: "t")
        try pair.native.insert(Record(id: 50, a: "x", b: nil), into: "t")
        let all = "SELECT * FROM t ORDER BY id"
        #expect(try pair.database.fetchAll(all) == pair.native.fetchAll(all))
    }
}
