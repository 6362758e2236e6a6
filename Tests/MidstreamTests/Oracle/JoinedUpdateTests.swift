import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// UPDATE … FROM of several tables, which SQLite joins with each other before it joins them to the table that is written.
@Suite struct JoinedUpdateTests {
    private static let extra = """
        CREATE TABLE item(id INTEGER PRIMARY KEY, ref); CREATE TABLE price(id INTEGER PRIMARY KEY, v);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO item SELECT i, 41 - i FROM n;
        INSERT INTO price SELECT id, id * 10 FROM item; CREATE TABLE k(x); INSERT INTO k VALUES (3), (7), (99);
        CREATE VIEW v AS SELECT id AS n, ref FROM item
        """
    private static let statements = [
        "UPDATE t SET n = price.v FROM item JOIN price USING (id) WHERE item.ref = t.id AND price.v > 200",
        "UPDATE t SET n = price.v FROM item NATURAL JOIN price WHERE item.ref = t.id AND price.v > 200",
        "UPDATE t SET n = price.v FROM item NATURAL JOIN price WHERE item.ref = t.id AND price.v > 200 RETURNING id",
        "UPDATE t SET n = price.v FROM item LEFT JOIN price USING (id) WHERE item.ref = t.id AND v BETWEEN 1 AND 150",
        "UPDATE t SET n = 1 FROM k LEFT JOIN price ON price.id = k.x WHERE price.id = t.id",
        "UPDATE t SET n = price.v FROM item JOIN price ON price.id = item.id WHERE item.ref = t.id",
        "UPDATE t SET n = p.v FROM item AS i, price AS p WHERE i.ref = t.id AND p.id = i.id",
        "UPDATE t AS x SET n = i.ref FROM (SELECT id, ref FROM item) AS i WHERE i.ref = x.id AND i.id < 20",
        "UPDATE t SET n = i.ref FROM item AS i WHERE i.ref = t.id",
        "WITH w AS (SELECT id, ref FROM item) UPDATE t SET n = price.v FROM w JOIN price USING (id) WHERE w.ref = t.id AND v <= 100 RETURNING id",
        "UPDATE t SET n = price.v FROM (item JOIN price USING (id)) WHERE item.ref = t.id AND v < 100",
        "UPDATE t SET n = q.v FROM k, (SELECT * FROM item JOIN price USING (id)) AS q WHERE q.ref = t.id AND q.v < 100",
        "UPDATE t SET n = other.n + 1 FROM item JOIN t AS other USING (id) WHERE item.ref = t.id",
    ]
    private static let rightJoins = [
        "UPDATE t SET n = 1 FROM k RIGHT JOIN price ON price.id = k.x WHERE k.x IS NULL AND price.id = t.id",
        "UPDATE t SET n = 1 FROM k FULL JOIN price ON price.id = k.x WHERE price.id = t.id",
        "UPDATE t SET n = 7 FROM v AS q1 NATURAL FULL JOIN v AS q2 WHERE q1.ref = t.id",
    ]

    @Test(
        .needs(.updateFrom),
        arguments: ["id INTEGER PRIMARY KEY, a, n)", "id INTEGER, a, n, PRIMARY KEY (id)) WITHOUT ROWID"],
        [true, false]
    )
    func changesTheRowsThatSQLiteDoes(_ columns: String, _ isInBlock: Bool) throws {
        for sql in Self.statements + (SQLiteFeature.rightJoin.isAvailable ? Self.rightJoins : []) {
            let pair = try Pair(
                schema: "CREATE TABLE t(\(columns)",
                rows: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO t SELECT i, i % 5, 0 FROM n
                    """,
                extra: Self.extra,
                tables: ["t"],
                moved: 9
            )
            let theirs = try texts(pair.native.fetchAll(sql)).sorted()
            let ours =
                isInBlock
                ? try texts(pair.database.write { try $0.fetchAll(sql) }).sorted()
                : try texts(pair.database.withoutTransaction { try $0.fetchAll(sql) }).sorted()
            #expect(ours == theirs, "\(sql)")
            let look = "SELECT * FROM t ORDER BY id"
            #expect(try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)), "\(sql)")
            #expect(try pair.native.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE n <> 0") ?? 0 > 0, "\(sql)")
        }
    }
}
