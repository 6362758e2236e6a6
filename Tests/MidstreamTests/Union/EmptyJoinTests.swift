import Midstream
import SQLiteConnection
import Testing

/// A join with an empty table ends at once, wherever the table stands.
@Suite struct EmptyJoinTests {
    private static func pair() throws -> Pair {
        try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, b); CREATE TABLE e(x, y)",
            rows:
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, i FROM n",
            extra: "CREATE TABLE plain(x); CREATE VIEW v AS SELECT * FROM t, t AS u, e",
            tables: ["t", "e"],
            moved: 50
        )
    }

    /// For some of these, native SQLite 3.15 goes through all rows.
    @Test(
        .enabled(if: Connection.libraryVersionNumber >= 3_040_000),
        arguments: [
            "SELECT count(*) FROM t,t,t,t,t,t,e", "SELECT count(*) FROM e,t,t,t,t,t,t",
            "SELECT count(*) FROM t,t,t,e,t,t,t",
            "SELECT count(*) FROM t,t,t,t,t,t,plain",
            "SELECT count(*) FROM t JOIN t JOIN t JOIN t JOIN t JOIN t JOIN e",
            "SELECT * FROM t AS a, t AS b, t AS c, t AS d, t AS f, t AS g, e WHERE a.b + g.b > y",
            "SELECT count(*) FROM (SELECT 1 FROM t,t,t,t,t,t,e)",
            "WITH c AS (SELECT 1 FROM t,t,t,t,t,t,e) SELECT count(*) FROM c",
            "SELECT count(*) FROM v, t, t, t, t", "SELECT 1 FROM t,t,t,t,t,t,e UNION ALL SELECT 2 FROM e",
        ]
    )
    func isOverAtOnce(_ sql: String) throws {
        let pair = try Self.pair()
        #expect(try texts(pair.database.fetchAll(sql)) == texts(pair.native.fetchAll(sql)))
        try pair.database.execute("INSERT INTO plain \(sql.replacing("SELECT *", with: "SELECT 1"))")
    }

    /// The plan for an empty table is not kept.
    @Test func aTableThatGetsRowsIsJoinedInTheNativeOrder() throws {
        let pair = try Self.pair()
        let sql = "SELECT t.id, x FROM t, e WHERE t.id < 4"
        for statement in [sql, "INSERT INTO e VALUES (1, 2), (3, 4)", sql, "DELETE FROM e", sql] {
            #expect(
                try texts(pair.database.write { try $0.fetchAll(statement) }) == texts(pair.native.fetchAll(statement))
            )
        }
    }
}
