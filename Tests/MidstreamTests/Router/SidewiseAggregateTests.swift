import SQLText
import SQLiteConnection
import Testing

@testable import Midstream

/// Queries of groups and counts, which SQLite evaluates on each side by itself.
@Suite struct SidewiseAggregateTests {
    private static let columns = "(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL, d TEXT COLLATE NOCASE, e)"

    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO t SELECT i, CASE WHEN i % 11 THEN i % 7 END, CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN x'00ff' ELSE 'b' || (i % 9) END,
            i / 3.0, CASE i % 3 WHEN 0 THEN 'x' ELSE 'X' END, CASE i % 4 WHEN 0 THEN i WHEN 1 THEN i * 1.0 ELSE 'e' || i END FROM n
        """

    /// A table of which the given number of rows has moved, with rows that were promoted, deleted and inserted; and the
    /// same table natively.
    private func pair(moved: Int64) throws -> (Database, Connection, TemporaryFolder) {
        let folder = TemporaryFolder()
        let (native, old) = (try Connection(path: folder.file("n.db")), try Connection(path: folder.file("old.db")))
        for connection in [native, old] {
            try connection.execute("CREATE TABLE t\(Self.columns)")
            try connection.execute("CREATE INDEX by_a ON t(a, b)")
            try connection.execute(Self.rows)
        }
        let target = try Connection(path: folder.file("new.db"))
        try target.execute(script: "CREATE TABLE t\(Self.columns); CREATE INDEX by_a ON t(a, b)")
        target.close()
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.stepMigration(rows: moved)
        for sql in [
            "UPDATE t SET a = 3, b = 'new' WHERE id % 31 = 0", "DELETE FROM t WHERE id % 29 = 0",
            "INSERT INTO t(a, b) VALUES (6, 'b1'), (NULL, NULL)",
        ] {
            try native.execute(sql)
            try database.execute(sql)
        }
        return (database, native, folder)
    }

    /// Queries that are evaluated on each side, and queries that are not.
    private static let sidewise = [
        "SELECT a, count(*) FROM t GROUP BY a", "SELECT a, count(b), max(b), min(a) FROM t WHERE id > 20 GROUP BY a",
        "SELECT b, a, count(*) AS n FROM t GROUP BY b, a ORDER BY a, b DESC", "SELECT count(*) FROM t WHERE a = 3",
        "select Max( a ), COUNT(c) n, min(b) FROM t AS x WHERE c < 40 and b is not null",
        "SELECT a AS k, max(id) AS last FROM t GROUP BY 1 ORDER BY last DESC, k LIMIT 3",
        "SELECT a, count(*) FROM t GROUP BY a ORDER BY 2 DESC, 1 LIMIT 2 OFFSET 1",
        "SELECT count(*) FROM t WHERE a IN (1, 2, 3) AND (b LIKE 'b%' OR \"c\" > 1);",
        "SELECT max(b) FROM t WHERE id < 0", "SELECT max(b) FROM t",
        "SELECT min(id), max(id) FROM t", "SELECT min(id) FROM t", "SELECT min(a) FROM t",
        "SELECT min(b) FROM t WHERE a = 3",
        "SELECT count(e), count(d) FROM t", "SELECT a, count(*) FROM main.t GROUP BY A",
        "SELECT count(*) FROM t WHERE length(b) = 2 GROUP BY a",
    ]
    private static let others = [
        "SELECT a, sum(c) FROM t GROUP BY a", "SELECT d, count(*) FROM t GROUP BY d", "SELECT max(e), min(c) FROM t",
        "SELECT a, b FROM t GROUP BY a ORDER BY a", "SELECT count(DISTINCT a) FROM t WHERE a > 1",
        "SELECT count(*) FROM t WHERE a = (SELECT max(a) FROM t)",
        "SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > 3",
        "SELECT a + 1, count(*) FROM t GROUP BY a + 1", "SELECT b AS a, count(*) FROM t GROUP BY b, a ORDER BY 2, 1",
        "SELECT b, a, count(*) FROM t GROUP BY b, a", "SELECT b, a, count(*) FROM t GROUP BY b, a ORDER BY b",
        "SELECT min(b) /* least */ FROM t WHERE id > 3", "SELECT max(a) - 1 FROM t",
        "SELECT count(*) FROM t WHERE rowid < 100",
        "SELECT max(id, a) FROM t WHERE id = 5", "SELECT count(*), a FROM t WHERE id = 5",
        "SELECT count(*) FROM t WHERE b = \"x\"",
    ]

    @Test(arguments: [0, 90, 195, 200] as [Int64])
    func theyGiveWhatSQLiteGivesOnAWholeTable(_ moved: Int64) throws {
        let (database, native, folder) = try pair(moved: moved)
        defer { withExtendedLifetime(folder) {} }
        for sql in Self.sidewise + Self.others {
            var names: [[String]] = [[], []]
            let expected = try native.fetchAll(sql)
            names[0] = try native.prepare(sql).columnNames.names
            try database.read { access in
                try access.forEachRow(sql, onStart: { names[1] = $0.columnNames.names }) { _ in false }
            }
            let rows = try database.fetchAll(sql)
            // If a query groups by several columns and asks for no order of the groups, SQLite takes the order of an
            // index.
            #expect(Self.sidewise.contains(sql) ? rows == expected : Set(texts(rows)) == Set(texts(expected)), "\(sql)")
            #expect(names[0] == names[1], "\(sql)")
        }
    }

    @Test func parametersAreBoundOnBothSides() throws {
        let (database, native, folder) = try pair(moved: 90)
        defer { withExtendedLifetime(folder) {} }
        let queries: [(String, Arguments)] = [
            ("SELECT a, count(*) FROM t WHERE id > ? AND id < ? GROUP BY a LIMIT ?", [30, 170, 4]),
            ("SELECT count(*) FROM t WHERE a = :a OR b = :b", [":a": 2, ":b": "b3"]),
            ("SELECT max(b) FROM t WHERE a = ?2 AND id > ?1", [10, 4]),
            ("SELECT count(*) FROM t WHERE a = ?", [SQLiteValue.null]),
        ]
        for (sql, arguments) in queries {
            #expect(try database.fetchAll(sql, arguments) == native.fetchAll(sql, arguments), "\(sql)")
        }
        #expect(throws: SQLiteError.self) { try database.fetchAll("SELECT count(*) FROM t WHERE a = ?", [1, 2]) }
    }

    /// Rows that a statement writes while it reads the groups are not among the groups.
    @Test func groupsThatAreReadWhileTheirRowsAreWrittenStayWhatTheyWere() throws {
        let (database, native, folder) = try pair(moved: 40)
        defer { withExtendedLifetime(folder) {} }
        let sql = "SELECT a, count(*) FROM t GROUP BY a"
        let expected = try native.fetchAll(sql)
        try database.write { access in
            var rows: [Row] = []
            try access.forEachRow(sql) { statement in
                rows.append(Row(copying: statement))
                try access.execute("UPDATE t SET a = 100 WHERE id = ?", [100 + rows.count])
                return true
            }
            #expect(rows == expected)
        }
    }

    /// A subquery has no columns of these names.
    @Test(arguments: ["true", "FALSE"]) func columnsAreCalledAsTruthValuesAre(_ name: String) throws {
        let column = SQLIdentifier.quoted(name)
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(column) INTEGER, b TEXT)",
            rows: """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
                INSERT INTO t SELECT i, i % 5, 'b' || (i % 3) FROM n
                """,
            tables: ["t"],
            moved: 10
        )
        for sql in [
            "SELECT \(column), count(*) FROM t GROUP BY \(column)", "SELECT count(*), max(\(column)) FROM t",
            "SELECT count(\(column)) FROM t WHERE \(column) > 2", "SELECT b, max(\(column)) FROM t GROUP BY b",
            "SELECT count(*) FROM t WHERE \(column)", "SELECT count(*) FROM t WHERE b = 'b1'",
        ] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    /// SQLite takes expressions of 1000 levels.
    @Test func aConditionMayBeAsLargeAsNatively() throws {
        let (database, native, folder) = try pair(moved: 40)
        defer { withExtendedLifetime(folder) {} }
        for count in [400, 999] {
            let sql =
                "SELECT count(*) FROM t WHERE " + (1...count).map { "a = \($0 * 3)" }.joined(separator: " OR ")
            #expect(texts(try database.fetchAll(sql)) == texts(try native.fetchAll(sql)))
        }
    }

    /// The test compares which of the groups with equal counts come first.
    @Test(arguments: ["", "CREATE INDEX by_a ON t(a)", "CREATE INDEX by_a ON t(a, c)"], [0, 20, 59])
    func groupsOfEqualCountsComeAsNatively(_ index: String, _ moved: Int64) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, c INTEGER); \(index)",
            rows: """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT INTO t SELECT i, i % 6, i % 4 FROM n
                """,
            tables: ["t"],
            moved: moved
        )
        for sql in [
            "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC LIMIT 3",
            "SELECT a, count(*) FROM t GROUP BY a ORDER BY 2 DESC", "SELECT a, count(*) FROM t GROUP BY a ORDER BY 2",
            "SELECT a, count(*), max(c) FROM t GROUP BY a ORDER BY 2 DESC LIMIT 2",
            "SELECT id, count(*) FROM t GROUP BY id ORDER BY 2 DESC LIMIT 2",
        ] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    @Test func onlyTheSimpleOnesAreTakenApart() throws {
        let (database, _, folder) = try pair(moved: 40)
        defer { withExtendedLifetime(folder) {} }
        try database.write { access in
            for (list, isTaken) in [(Self.sidewise, true), (Self.others, false)] {
                for sql in list {
                    let prepared = try access.preparedText(sql)
                    #expect(prepared.contains("midstream_source") == isTaken, "\(sql): \(prepared)")
                }
            }
        }
    }
}

extension DatabaseAccess {
    /// The text that SQLite gets to prepare.
    fileprivate func preparedText(_ sql: String) throws -> String {
        let pieces = SQLScript(sql).filter { $0.kind != .empty }
        return try prepare(.outlined(pieces[0], in: sql)).route.sql
    }
}
