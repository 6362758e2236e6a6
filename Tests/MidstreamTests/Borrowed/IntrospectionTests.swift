import Midstream
import SQLiteC
import SQLiteConnection
import Testing

/// What libraries ask of the schema, on connections of other code: the answers are those of a table that does not move.
@Suite struct IntrospectionTests {
    private static let schema = """
        CREATE TABLE u(id TEXT PRIMARY KEY);
        CREATE TABLE t(a, k TEXT, b NOT NULL, id TEXT REFERENCES u(id), PRIMARY KEY (k, b), UNIQUE (a, b));
        CREATE INDEX byID ON t(id)
        """
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) "
        + "INSERT INTO t SELECT i, 'k' || i, i % 3, NULL FROM n"

    private static func pair() throws -> Pair {
        try Pair(schema: schema, rows: rows, tables: ["t"], moved: 7)
    }

    /// As GRDB does: which schema has the table, and what that schema says of it.
    private static func schemaOfTable(_ name: String, _ foreign: ForeignConnection) throws -> String? {
        for (schema, master) in [("temp", "sqlite_temp_master"), ("main", "sqlite_master")] {
            let rows = try foreign.rows("SELECT name FROM \(master) WHERE type = 'table' AND name = '\(name)'")
            if !rows.isEmpty { return schema }
        }
        return nil
    }

    @Test(arguments: ForeignConnection.Library.allCases)
    func aLibraryThatLooksForTheTableFindsTheTargets(_ library: ForeignConnection.Library) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: library)
        if library == .grdb { try foreign.execute("PRAGMA foreign_keys = OFF") }
        let overlay = try foreign.install()
        #expect(try Self.schemaOfTable("t", foreign) == "main")
        #expect(try foreign.rows("SELECT count(*), count(DISTINCT k) FROM t") == ["20|20"])
        for question in ["table_info(t)", "index_list(t)", "foreign_key_list(t)"] {
            let native = try Connection(path: pair.target).fetchAll("PRAGMA main.\(question)")
            #expect(try foreign.rows("PRAGMA main.\(question)") == texts(native), "\(question)")
        }
        try overlay.uninstall()
        #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master") == ["0"])
    }

    /// A rollback of a change of `temp` has SQLite read the rows of `sqlite_temp_master` again.
    @Test func theTableStaysWholeWhenSQLiteReadsTheSchemaAgain() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try foreign.execute("BEGIN; CREATE TEMP TABLE x(a); DELETE FROM t WHERE a = 15; ROLLBACK")
        #expect(try foreign.rows("SELECT count(*) FROM t") == ["20"])
        #expect(try Self.schemaOfTable("t", foreign) == "main")
        try foreign.execute("ATTACH ':memory:' AS m; CREATE TABLE m.x(a); DETACH m")
        try overlay.refresh()
        try foreign.execute("UPDATE t SET id = 'z' WHERE a IN (3, 15)")
        #expect(try foreign.rows("SELECT a, id FROM t WHERE id = 'z' ORDER BY a") == ["3|z", "15|z"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// GRDB looks in `temp` for indexes before it asks whether the table is there.
    @Test func theUnionTableHasNoIndexesOfItsOwn() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        for question in ["index_list", "foreign_key_list"] {
            #expect(try foreign.rows("PRAGMA temp.\(question)(t)") == [])
        }
    }

    @Test func hidingTheTableIsNoChangeThatIsCounted() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let (changes, total) = (sqlite3_changes(foreign.handle), sqlite3_total_changes(foreign.handle))
        try foreign.install().uninstall()
        #expect(sqlite3_changes(foreign.handle) == changes)
        #expect(sqlite3_total_changes(foreign.handle) == total)
    }

    @Test func aMovingTableIsNotRenamed() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let error = #expect(throws: SQLiteError.self) { try foreign.execute("ALTER TABLE t RENAME TO v") }
        #expect(error?.message == "table t is moving: it can be renamed when it has moved")
        #expect(try foreign.rows("SELECT count(*) FROM t") == ["20"])
        #expect(throws: SQLiteError.self) { try foreign.execute("ALTER TABLE t ADD COLUMN z") }
        try overlay.refresh()
        try foreign.execute("DELETE FROM t WHERE a IN (2, 18)")
        #expect(try foreign.rows("SELECT count(*) FROM t") == ["18"])
    }
}
