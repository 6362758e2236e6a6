import SQLiteFeatures

/// A statement, with what SQLite may lack for it.
struct CorpusStatement: ExpressibleByStringLiteral {
    let text: String
    var needs: [SQLiteFeature] = []

    init(stringLiteral text: String) {
        self.text = text
    }

    static func newer(_ text: String, needs: SQLiteFeature...) -> CorpusStatement {
        var statement = CorpusStatement(stringLiteral: text)
        statement.needs = needs
        return statement
    }

    /// Whether the linked SQLite has all that the statement needs.
    var isTaken: Bool { needs.allSatisfy(\.isAvailable) }
}

/// Statements that SQLite takes, given `Corpus.schema`.
public enum Corpus {
    /// The tables that the statements are of.
    public static let schema = """
        CREATE TABLE t(a INTEGER PRIMARY KEY, b, c, "key", "desc", UNIQUE(b, c));
        CREATE TABLE u(a PRIMARY KEY, b, c);
        CREATE TABLE "order"(a, "b""c");
        CREATE TABLE "left"(x);
        CREATE INDEX tb ON t(b);
        CREATE INDEX ub ON u(b);
        """

    private static let queries: [CorpusStatement] = [
        "SELECT 1",
        "SELECT * FROM t",
        "SELECT t.*, main.t.a, u.b AS x FROM main.t, u WHERE t.a = u.a",
        .newer(
            "SELECT a desc, b key FROM t WHERE key > desc ORDER BY a DESC NULLS LAST, key ASC LIMIT 3 OFFSET 4",
            needs: .nullsOrder
        ),
        "SELECT replace(b, 'x', 'y'), like('a', b), glob('a', b), b LIKE 'a' ESCAPE '\\' FROM t",
        "SELECT a FROM t UNION ALL SELECT b FROM u EXCEPT SELECT a FROM \"order\" ORDER BY 1 LIMIT 5",
        "VALUES (1, 2), (3, (SELECT max(a) FROM t))",
        .newer(
            "WITH x AS (SELECT a FROM t), y(k) AS MATERIALIZED (SELECT a FROM x) SELECT * FROM y, u",
            needs: .materialized
        ),
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT * FROM n JOIN t ON i = a",
        "WITH t AS (SELECT 1 AS a) SELECT a FROM t WHERE a IN (WITH u AS (SELECT 2 AS q) SELECT q FROM u)",
        "SELECT * FROM t LEFT JOIN u USING (a) CROSS JOIN \"left\"",
        "SELECT * FROM t NATURAL LEFT OUTER JOIN \"left\" CROSS JOIN u",
        "SELECT * FROM t AS x INNER JOIN (u JOIN \"left\" ON u.a = x) ON x.a = u.a",
        "SELECT * FROM (t), (SELECT a AS z FROM u) AS q WHERE q.z = 1",
        "SELECT u.a FROM t JOIN u ON t.a = u.a AND u.b IN (1, 2), main.\"left\" AS l, \"order\" AS o WHERE l.x AND o.a",
        "SELECT * FROM left",
        "SELECT * FROM t INDEXED BY tb WHERE b = 1",
        "SELECT * FROM t x NOT INDEXED WHERE b = 1",
        .newer("SELECT * FROM json_each('[1]') j, t WHERE j.value = a", needs: .jsonFunctions),
        "SELECT a IN \"left\" FROM t, (SELECT 1) WHERE a IN (1, 2)",
        "SELECT * FROM t WHERE a IN main.\"left\" AND b NOT IN \"left\"",
        .newer("SELECT a IS NOT DISTINCT FROM b, a IS DISTINCT FROM c FROM t", needs: .distinctFrom),
        "SELECT CASE WHEN a THEN 1 ELSE CASE b WHEN 2 THEN 3 END END FROM t WHERE b BETWEEN 1 AND 2 AND c",
        .newer(
            "SELECT count(DISTINCT b) FILTER (WHERE a > 1) FROM t GROUP BY c HAVING count(*) > 1",
            needs: .aggregateFilter
        ),
        .newer(
            """
            SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE GROUP),
                max(a) OVER w, min(a) FILTER (WHERE a) OVER (w) FROM t WINDOW w AS (PARTITION BY b), v AS (ORDER BY a)
            """,
            needs: .windows,
            .aggregateFilter
        ),
        "SELECT window FROM (SELECT 1 AS window) window",
        "SELECT over, filter FROM (SELECT 1 AS over, 2 filter) over",
        "SELECT EXISTS (SELECT 1 FROM t), NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t",
        "SELECT cast(a AS varchar(10)), CAST(b AS unsigned big int) FROM t",
        .newer("SELECT b -> '$.a', b ->> 'c' FROM t WHERE ((((a))))", needs: .jsonOperators),
        "SELECT [a], `b`, \"c\" FROM [t]",
        "SELECT a FROM 't'",
        "SELECT a FROM t -- the end",
        "SELECT /* a */ a /* ; */ FROM/**/t WHERE a=';' -- ; no\n AND b",
        "SELECT (SELECT (SELECT count(*) FROM u WHERE u.b = t.b) FROM \"order\" o WHERE o.a) FROM t",
        "SELECT a COLLATE nocase FROM t WHERE a ISNULL OR b NOTNULL OR c NOT NULL AND NOT a IS NULL",
        "SELECT * FROM t WHERE (a, b) IN (VALUES (1, 2)) AND (a, b) = (SELECT a, b FROM u)",
        "SELECT first.a FROM t first, u AS last WHERE first.a = last.a",
        "SELECT x'0f', .5, 1., 1e5, 0x1F, 1.5e-3, X'', -1, +2, ~3",
        "SELECT t.key, t.left FROM (SELECT a AS key, b AS left FROM t) t",
        .newer(
            "SELECT left.x FROM t JOIN left ON left.x = t.a RIGHT JOIN u ON u.b = t.b WHERE left.x IS NULL",
            needs: .rightJoin
        ),
        "SELECT 'it''s', \"b\"\"c\" FROM \"order\"",
        "SELECT end FROM (SELECT 1 end) WHERE CASE WHEN end THEN end END",
        "SELECT é FROM (SELECT 1 AS é)",
    ]

    private static let writes: [CorpusStatement] = [
        "INSERT INTO t VALUES (1, 2, 3, 4, 5)",
        "INSERT INTO main.t (a, b) VALUES (1, 2), (3, (SELECT a FROM u))",
        "INSERT INTO t DEFAULT VALUES",
        .newer(
            "INSERT INTO t AS x (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = x.b + excluded.b, (c, b) = (1, 2) WHERE x.a",
            needs: .upsert,
            .targetAlias
        ),
        .newer(
            "INSERT INTO t (a) SELECT u.a FROM u JOIN \"left\" ON u.a = x WHERE true ON CONFLICT DO NOTHING RETURNING a, b AS z",
            needs: .upsert,
            .returning
        ),
        .newer(
            "INSERT INTO t (a) VALUES (1) ON CONFLICT (b, c) WHERE a DO NOTHING ON CONFLICT (a) DO UPDATE SET b = 1",
            needs: .upsert
        ),
        "INSERT OR IGNORE INTO t (a) SELECT a FROM u UNION SELECT b FROM u",
        "REPLACE INTO t (a, \"key\") VALUES (1, 2)",
        .newer(
            "WITH a AS (SELECT 1), b AS NOT MATERIALIZED (SELECT 2) INSERT INTO t (a) SELECT 1 FROM a, b WHERE 0",
            needs: .materialized
        ),
        "INSERT INTO t (a) WITH q AS (SELECT a FROM u) SELECT a FROM q",
        .newer("INSERT INTO t (a) VALUES (1) RETURNING *, rowid", needs: .returning),
        .newer(
            "INSERT INTO t (a) VALUES (abs(1)) ON CONFLICT DO NOTHING RETURNING a",
            needs: .upsert,
            .returning
        ),
        "UPDATE t SET b = 1",
        .newer(
            "UPDATE OR IGNORE t AS x INDEXED BY tb SET (b, c) = (1, 2), \"key\" = 3 FROM (SELECT a FROM u) AS y "
                + "JOIN \"left\" AS z ON y.a = z.x WHERE x.b = 1 AND x.a = y.a RETURNING a",
            needs: .returning,
            .targetAlias,
            .updateFrom
        ),
        "UPDATE main.t SET b = (SELECT b FROM u WHERE u.a = t.a), c = c WHERE main.t.a IN (SELECT a FROM u WHERE b)",
        "UPDATE t SET key = 1, desc = replace(desc, 'a', 'b') WHERE key",
        .newer("WITH q AS (SELECT 1 AS z) UPDATE t SET b = z FROM q", needs: .updateFrom),
        "DELETE FROM t",
        .newer(
            "DELETE FROM main.t AS x NOT INDEXED WHERE x.a IN (SELECT a FROM u) RETURNING a",
            needs: .returning,
            .targetAlias
        ),
        "DELETE FROM t WHERE a = CASE WHEN b THEN 1 ELSE 2 END",
        "DELETE FROM t WHERE a IN \"left\"",
        "WITH q AS (SELECT a FROM u) DELETE FROM t WHERE a IN q",
    ]

    private static let others: [CorpusStatement] = [
        .newer(
            "CREATE TABLE n(a INTEGER PRIMARY KEY DEFAULT (abs(1)), b REFERENCES t(a) ON DELETE SET NULL, CHECK (a > 0)) STRICT",
            needs: .strict
        ),
        "CREATE TEMP TABLE IF NOT EXISTS n AS SELECT * FROM t",
        "CREATE UNIQUE INDEX i ON t(lower(b), c DESC) WHERE a > 1",
        "CREATE VIEW v(x, y) AS SELECT a, b FROM t",
        """
        CREATE TRIGGER IF NOT EXISTS begin AFTER UPDATE OF b, c ON t FOR EACH ROW WHEN new.a > 1 BEGIN
            INSERT INTO u VALUES (new.a, CASE WHEN 1 THEN 2 END, 3);
            UPDATE u SET b = 1 WHERE a = old.a; DELETE FROM u;
            SELECT RAISE(ABORT, 'no; END;') FROM "left";
        END
        """,
        "CREATE TEMPORARY TRIGGER g BEFORE DELETE ON main.t BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE f USING fts5(a, b)",
        "DROP TABLE IF EXISTS main.t", "DROP INDEX tb", "DROP VIEW IF EXISTS w", "DROP TRIGGER IF EXISTS w",
        "ALTER TABLE t RENAME TO q", "ALTER TABLE main.t ADD COLUMN z INT DEFAULT 1",
        "PRAGMA main.user_version", "PRAGMA user_version = 3", "PRAGMA table_info('t')", "PRAGMA cache_size = -200",
        "PRAGMA foreign_keys = ON", "PRAGMA journal_mode(DELETE)",
        "BEGIN", "BEGIN IMMEDIATE TRANSACTION", "COMMIT", "END TRANSACTION", "ROLLBACK", "SAVEPOINT s",
        "ROLLBACK TRANSACTION TO SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "RELEASE SAVEPOINT s",
        "ATTACH 'x' AS y", "ATTACH DATABASE ? AS \"z\"", "DETACH DATABASE y", "DETACH y", "VACUUM",
        .newer("VACUUM main INTO 'x'", needs: .vacuumInto),
        "REINDEX", "REINDEX main.t", "ANALYZE", "ANALYZE main.t",
        "EXPLAIN SELECT 1 FROM t", "EXPLAIN QUERY PLAN DELETE FROM t WHERE a",
        "EXPLAIN CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END",
        "EXPLAIN CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END", "EXPLAIN CREATE INDEX n ON t(b)",
        "EXPLAIN ALTER TABLE t ADD COLUMN z", "EXPLAIN DROP TABLE t", "EXPLAIN INSERT INTO t(a) SELECT a FROM u",
    ]

    /// All of them.
    public static let all = (queries + writes + others).map(\.text)

    /// Those that the linked SQLite takes.
    public static let taken = (queries + writes + others).filter(\.isTaken).map(\.text)
    /// Those of them that read or write tables.
    public static let takenQueriesAndWrites = (queries + writes).filter(\.isTaken).map(\.text)
}
