import Midstream
import SQLiteConnection
import Testing

@Suite struct ColumnNameTests {
    @Test(arguments: [
        "SELECT rowid FROM t", "SELECT oid, _rowid_, x FROM t", "SELECT t.rowid FROM t", "SELECT a.rowid FROM t AS a",
        "SELECT rowid AS r FROM t", "SELECT x rowid FROM t", "SELECT rowid + 1 FROM t", "SELECT count(*) FROM t",
        "SELECT COUNT( * ) FROM t AS q", "SELECT count(*) AS n FROM main.t", "SELECT max(rowid) FROM t",
        "SELECT * FROM t",
        "SELECT a.rowid, b.rowid FROM t a JOIN n b ON a.rowid = b.rowid", "SELECT main.t.id FROM t",
        "SELECT main.t.rowid FROM main.t", "SELECT (rowid) FROM t", "SELECT rowid FROM t WHERE x IN (SELECT 'b')",
        "SELECT (SELECT 1), rowid FROM t", "SELECT coalesce(x, rowid, 1) FROM t", "SELECT count(*) /* all */ FROM t",
        "SELECT count(*) -- all\n FROM t", "SELECT rowid FROM t UNION SELECT y FROM n ORDER BY 1",
        "WITH c AS (SELECT t.rowid, x FROM t) SELECT rowid FROM c", "SELECT rowid FROM (SELECT t.rowid, x FROM t)",
        "SELECT * FROM (SELECT rowid, x FROM t)",
        "WITH c AS (SELECT t.rowid FROM t JOIN n ON n.y = t.id) SELECT * FROM t WHERE rowid IN (SELECT rowid FROM c)",
        "SELECT CAST(-id AS TEXT) AS id FROM t ORDER BY x > 'z', rowid", "SELECT id FROM v", "SELECT * FROM w",
        "SELECT count(*) FROM n WHERE y IN (SELECT id FROM v)",
    ])
    func resultColumnsOfAMovingTableHaveTheirNativeNames(_ sql: String) throws {
        let folder = TemporaryFolder()
        let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');"
        let native = """
            CREATE TABLE n(y); INSERT INTO n VALUES (1), (2);
            CREATE VIEW v AS SELECT rowid, x FROM t; CREATE VIEW w(a, b) AS SELECT rowid, x FROM t;
            """
        try Connection(path: folder.file("old.db")).execute(script: script)
        let plain = try Connection(path: folder.file("plain.db"))
        try plain.execute(script: script + native)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x);" + native)
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.stepMigration(rows: 1)
        let expected = try plain.fetchAll(sql)
        let rows = try database.fetchAll(sql)
        #expect(rows == expected)
        #expect(rows.first?.columns.names == expected.first?.columns.names)
    }

    @Test func aTableThatIsMadeOfAQueryHasThePrimaryKeysName() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 5), (2, 6)",
            tables: ["t"],
            moved: 1
        )
        for sql in [
            "CREATE TABLE x AS SELECT rowid, a FROM t WHERE a IN (SELECT a FROM t)",
            "CREATE TABLE y AS WITH c AS (SELECT rowid, a FROM t) SELECT rowid, a FROM c",
            "CREATE TEMP VIEW z AS SELECT oid FROM t",
        ] {
            try pair.native.execute(sql)
            try pair.database.execute(sql)
        }
        for sql in ["SELECT id, a FROM x ORDER BY id", "SELECT rowid, a FROM y ORDER BY rowid"] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)))
        }
        let viewed = try pair.database.write { try $0.fetchAll("SELECT id FROM z ORDER BY id") }
        #expect(texts(viewed) == ["1", "2"])
    }
}
