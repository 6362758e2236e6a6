import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A rowid and the INTEGER PRIMARY KEY are one column. An expression's column has the text of the expression for its
/// name.
@Suite struct RowIDNameTests {
    private static func pair() throws -> Pair {
        try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, b); CREATE TABLE u(k INTEGER PRIMARY KEY, id)",
            rows: "INSERT INTO t VALUES (1, 30), (2, 20), (3, 10); INSERT INTO u VALUES (5, 8), (6, 7), (7, 6)",
            extra: """
                CREATE TABLE a(k INTEGER PRIMARY KEY, x); INSERT INTO a VALUES (11, 2), (12, 1);
                CREATE TABLE o(x, y); CREATE VIEW va AS SELECT "rowid", [oid], `_rowid_` AS r FROM t;
                CREATE VIEW vb AS SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC;
                CREATE VIEW vc(n) AS SELECT rowid FROM t UNION SELECT 9 ORDER BY id DESC;
                CREATE VIEW vd AS SELECT main.t.b+1, (SELECT main.t.b FROM t) FROM t;
                CREATE VIEW ve AS SELECT k FROM a UNION SELECT id FROM t ORDER BY rowid;
                """,
            tables: ["t", "u"],
            moved: 1
        )
    }

    private func check(_ statements: [String], in pair: Pair, _ sql: String) throws {
        for text in statements {
            let expected = Result { try pair.native.fetchAll(text) }
            let found = Result { try pair.database.write { try $0.fetchAll(text) } }
            switch (expected, found) {
            case (.success(let expected), .success(let found)):
                #expect(texts(found) == texts(expected), "\(sql)")
                #expect(found.first?.columns.names == expected.first?.columns.names, "\(sql)")
            case (.failure(let expected as SQLiteError), .failure(let found as SQLiteError)):
                #expect(found.message == expected.message, "\(sql)")
            default: Issue.record("\(sql): \(found), natively \(expected)")
            }
        }
        #expect(pair.database.migrationStatistics.drains(of: "t") == 0, "\(sql)")
    }

    @Test(arguments: [
        "SELECT id FROM t UNION SELECT 9 ORDER BY rowid", "SELECT id FROM t UNION ALL SELECT 9 ORDER BY rowid DESC",
        "SELECT rowid FROM t UNION SELECT 9 ORDER BY id DESC", "SELECT id FROM t EXCEPT SELECT 9 ORDER BY t.oid DESC",
        "SELECT id FROM t INTERSECT SELECT 2 ORDER BY main.t.rowid",
        "SELECT id FROM t UNION SELECT 9 ORDER BY main.t.id DESC",
        "SELECT id + 1 FROM t UNION SELECT 9 ORDER BY rowid + 1 DESC",
        "SELECT b, id FROM t UNION SELECT 9, 1 ORDER BY (rowid), b",
        "SELECT * FROM t UNION SELECT 9, 1 ORDER BY rowid DESC",
        "SELECT *, b FROM t UNION SELECT 9, 1, 2 ORDER BY b, rowid DESC",
        "SELECT x, 5 FROM a UNION SELECT 5, id FROM t ORDER BY t.rowid, 1",
        "SELECT x FROM a UNION SELECT id FROM t ORDER BY rowid DESC",
        "SELECT k FROM a UNION SELECT id FROM t ORDER BY rowid DESC",
        "SELECT x, k FROM a UNION SELECT id, b FROM t ORDER BY rowid",
        "SELECT b AS rowid FROM t UNION SELECT id FROM t ORDER BY rowid",
        "SELECT id, k FROM u UNION SELECT b, id FROM t ORDER BY rowid",
        "SELECT q.id FROM t AS q UNION SELECT 9 ORDER BY q.rowid DESC", "SELECT b FROM t UNION SELECT 9 ORDER BY rowid",
        "SELECT t.id FROM t, a UNION SELECT 9 ORDER BY t.rowid DESC",
        "VALUES (9) UNION SELECT id FROM t ORDER BY rowid DESC",
        "SELECT main.t.b FROM t UNION SELECT 9 ORDER BY main.t.b DESC",
        "SELECT id FROM t UNION SELECT 9 ORDER BY rowid COLLATE nocase DESC",
        "SELECT * FROM (SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC LIMIT 2)", "SELECT * FROM vb",
        "SELECT * FROM vc", "SELECT * FROM ve",
        "WITH c AS (SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC LIMIT 2) SELECT * FROM c",
        "SELECT * FROM vb UNION SELECT 10 ORDER BY id",
        "SELECT (SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC LIMIT 1)",
        "SELECT b FROM t WHERE id IN (SELECT rowid FROM t UNION SELECT 9 ORDER BY id LIMIT 2)",
        "INSERT INTO o(x) SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC; SELECT rowid, x FROM o",
        "CREATE TABLE n AS SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC; SELECT rowid, * FROM n",
        "DELETE FROM t WHERE id IN (SELECT rowid FROM t UNION SELECT 9 ORDER BY id DESC LIMIT 2); SELECT * FROM t",
        "UPDATE t SET b = (SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC LIMIT 1); SELECT * FROM t",
        "INSERT INTO t(b) SELECT id FROM t UNION SELECT 9 ORDER BY rowid DESC; SELECT * FROM t",
    ])
    func aCompoundIsSortedByTheRowIDOfAMovingTable(_ sql: String) throws {
        let pair = try Self.pair()
        try check(sql.split(separator: "; ").map(String.init), in: pair, sql)
    }

    @Test(arguments: [
        "SELECT \"rowid\" FROM t", "SELECT [rowid], `oid` FROM t", "SELECT t.\"rowid\" FROM t",
        "SELECT main.t.[_rowid_] FROM t", "SELECT t.'rowid' FROM t",
        "SELECT (\"rowid\") FROM t", "SELECT \"RowID\" AS r FROM t", "SELECT 'rowid' FROM t",
        "SELECT \"rowid\" + 1 FROM t",
        "SELECT * FROM va", "SELECT id FROM va",
        "CREATE TABLE n AS SELECT \"rowid\", t.[oid], b FROM t; SELECT * FROM n",
        "SELECT * FROM (SELECT \"rowid\" FROM t)", "INSERT INTO o SELECT \"rowid\", b FROM t; SELECT * FROM o",
        "SELECT \"rowid\" FROM t UNION SELECT 9 ORDER BY 1",
    ])
    func aRowIDInQuotesHasTheNameOfThePrimaryKey(_ sql: String) throws {
        let pair = try Self.pair()
        try check(sql.split(separator: "; ").map(String.init), in: pair, sql)
    }

    @Test(arguments: [
        "SELECT main.t.b+1 FROM t", "SELECT main.t.b  +  1 FROM t",
        "SELECT main.t.b, -main.t.b, main.t.* FROM t", "SELECT main.t.b+1 AS n FROM t",
        "SELECT main.t.b+1 n FROM t", "SELECT main.t.b+1 'n' FROM t", "SELECT main.t.b COLLATE nocase FROM t",
        "SELECT (main.t.b) FROM t", "SELECT main.t.b IS NULL FROM t",
        "SELECT main.t.b NOTNULL, CASE WHEN main.t.b THEN 1 END FROM t", "SELECT likely(main.t.b) FROM t",
        "SELECT max(main.t.b), count(*) FROM main.t",
        "SELECT (SELECT main.t.b FROM main.t), (SELECT max(b) FROM main.t) FROM a",
        "SELECT * FROM (SELECT main.t.b+1, main.t.b COLLATE nocase FROM t)",
        "SELECT \"main.t.b+1\" FROM (SELECT main.t.b+1 FROM t)", "WITH c AS (SELECT main.t.b+1 FROM t) SELECT * FROM c",
        "SELECT * FROM vd",
        "CREATE TABLE n AS SELECT main.t.b+1, main.t.b COLLATE nocase, main.t.b FROM t; SELECT * FROM n",
        "SELECT main.t.b+1 FROM t UNION SELECT main.t.b+2 FROM t ORDER BY main.t.b+1",
        "SELECT DISTINCT main.t.b+1 FROM t ORDER BY main.t.b+1",
        "SELECT main.t.b+1, count(*) FROM t GROUP BY main.t.b+1 HAVING main.t.b+1 > 12",
        "SELECT main.t.\"b\"||'\"' FROM t",
        "SELECT main.t.b IN (1, 2), EXISTS (SELECT main.t.b FROM t) FROM t",
        "SELECT (SELECT count(*) FROM t INDEXED BY none) FROM a",
    ])
    func anExpressionThatNamesTheSchemaHasItsOwnTextForAName(_ sql: String) throws {
        let pair = try Self.pair()
        try check(sql.split(separator: "; ").map(String.init), in: pair, sql)
    }

    /// SQLite 3.15 leaves the comment out.
    @Test(.enabled(if: Connection.libraryVersionNumber >= 3_040_000))
    func aCommentBehindAnExpressionIsOfItsName() throws {
        let sql = "SELECT main.t.b  +  1 /* one */ FROM t"
        try check([sql], in: Self.pair(), sql)
    }

    @Test(.needs(.fullText5)) func aVirtualTableThatIsMadeCountsItsRows() throws {
        let pair = try Self.pair()
        try pair.database.write { access in
            for sql in [
                "UPDATE t SET b = 1", "CREATE VIRTUAL TABLE f USING fts5(a)", "DELETE FROM t WHERE id = 2",
                "DROP TABLE f",
            ] {
                try pair.native.execute(sql)
                try access.execute(sql)
                #expect(
                    try access.fetchValue(Int.self, "SELECT changes()") == pair.native.fetchValue("SELECT changes()"),
                    "\(sql)"
                )
                #expect(access.changes == pair.native.changes, "\(sql)")
            }
        }
    }

    @Test(arguments: [
        "DROP VIEW IF EXISTS temp.t", "DROP VIEW temp.t", "DROP TABLE IF EXISTS temp.t", "DROP TABLE temp.t",
        "DROP VIEW IF EXISTS temp.va", "DROP VIEW temp.va", "DROP TABLE IF EXISTS temp.va", "DROP TABLE temp.va",
        "DROP VIEW t",
        "DROP TABLE va", "DROP TRIGGER IF EXISTS temp.t", "DROP INDEX IF EXISTS temp.t",
    ])
    func nothingOfTheApplicationsIsInTemp(_ sql: String) throws {
        let pair = try Self.pair()
        try check([sql, "SELECT * FROM va", "SELECT * FROM t"], in: pair, sql)
    }
}
