import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A statement fails after it has promoted rows, and no savepoint can be set, since another statement writes.
@Suite(.needs(.returning)) struct FailedStatementTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, n INTEGER)"
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO t SELECT i, i, i FROM n;
        UPDATE t SET a = -9223372036854775808 WHERE id = 31
        """
    private static let extra = "CREATE TABLE z(x INTEGER); INSERT INTO z VALUES (1), (2), (3)"

    /// The statement fails at the row with the key 31, after the row with the key 30.
    private static let failing = "UPDATE t SET n = 0 WHERE id > 29 AND abs(a) > 0"

    enum Surrounding: CaseIterable {
        case nothing, block, transaction
    }

    @Test(
        arguments: Surrounding.allCases,
        [
            "UPDATE t SET n = n + 100 WHERE id IN (3, 35) RETURNING id", "INSERT INTO z VALUES (7), (8) RETURNING x",
            "UPDATE z SET x = x + 10 RETURNING x", "DELETE FROM z RETURNING x",
        ]
    )
    func itsErrorIsItsOwn(_ surrounding: Surrounding, _ loop: String) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: ["t"], moved: 7)
        let wanted = try Self.run(loop, pair.native)
        let found: [Int32]
        switch surrounding {
        case .nothing: found = try pair.database.withoutTransaction { try Self.run(loop, $0) }
        case .block: found = try pair.database.write { try Self.run(loop, $0) }
        case .transaction:
            found = try pair.database.withoutTransaction { access in
                try access.execute("BEGIN")
                let found = try Self.run(loop, access)
                try access.execute("COMMIT")
                return found
            }
        }
        #expect(found == wanted)
        for query in ["SELECT * FROM t ORDER BY id", "SELECT x FROM z ORDER BY x"] {
            #expect(try texts(pair.database.fetchAll(query)) == texts(pair.native.fetchAll(query)), "\(query)")
        }
        try pair.database.execute("INSERT INTO z VALUES (9)")
        try pair.finish()
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 40)
    }

    /// Runs the failing statement twice for each row of the loop.
    private static func run(_ loop: String, _ access: DatabaseAccess) throws -> [Int32] {
        var codes: [Int32] = []
        try access.forEachRow(loop) { _ in
            for _ in 0..<2 { codes.append(code { try access.execute(failing) }) }
            return true
        }
        return codes
    }

    private static func run(_ loop: String, _ connection: Connection) throws -> [Int32] {
        var codes: [Int32] = []
        let statement = try connection.prepare(loop)
        defer { statement.reset() }
        while try statement.step() {
            for _ in 0..<2 { codes.append(code { try connection.execute(failing) }) }
        }
        return codes
    }

    private static func code(_ body: () throws -> Void) -> Int32 {
        do {
            try body()
            return 0
        } catch {
            return (error as? SQLiteError)?.code.rawValue ?? -1
        }
    }
}
