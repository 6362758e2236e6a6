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
        "SELECT main.t.rowid FROM main.t",
    ])
    func resultColumnsOfAMovingTableHaveTheirNativeNames(_ sql: String) throws {
        let folder = TemporaryFolder()
        let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');"
        let native = "CREATE TABLE n(y); INSERT INTO n VALUES (1), (2);"
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
}
