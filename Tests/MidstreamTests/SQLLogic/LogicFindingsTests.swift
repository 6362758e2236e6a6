import Midstream
import SQLiteConnection
import Testing

/// What scripts found once.
@Suite struct LogicFindingsTests {
    private static func message(_ body: () throws -> Void) -> String? {
        do { try body() } catch { return (error as? SQLiteError)?.message ?? "\(error)" }
        return nil
    }

    @Test func whatTheTargetHasDroppedIsNotLookedForInTheSource() throws {
        let pair = try Pair(
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX ti ON t(a); CREATE TABLE n(x);
                CREATE VIEW v AS SELECT x FROM n; CREATE VIEW w AS SELECT a FROM t;
                CREATE TRIGGER r AFTER INSERT ON n BEGIN SELECT 1; END
                """,
            rows: "INSERT INTO t VALUES (1, 2), (3, 4)",
            tables: ["t"]
        )
        let drops = ["INDEX ti", "TRIGGER r", "VIEW v", "VIEW w", "TABLE n"].flatMap { object in
            ["DROP \(object)", "DROP \(object)", "DROP \(object.replacing(" ", with: " IF EXISTS "))"]
        }
        let others = [
            "SELECT * FROM v", "SELECT * FROM w", "ALTER TABLE n RENAME TO m", "ANALYZE n", "INSERT INTO n VALUES (1)",
        ]
        for sql in drops + others {
            let expected = Self.message { try pair.native.execute(sql) }
            #expect(Self.message { try pair.database.execute(sql) } == expected, "\(sql)")
        }
        #expect(try pair.database.fetchValue(Int64.self, "SELECT copied FROM midstream_tables") == 0)
        try pair.finish()
        #expect(try pair.database.fetchValue(Int64.self, "SELECT sum(a) FROM t") == 6)
    }

    @Test func whatATransactionHasDroppedIsNotLookedForInTheSource() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX ti ON t(a)",
            rows: "INSERT INTO t VALUES (1, 2), (3, 4)",
            tables: ["t"]
        )
        let statements = [
            "BEGIN", "DROP TABLE t", "SELECT * FROM t", "INSERT INTO t VALUES (5, 6)", "DROP TABLE t",
            "DROP TABLE IF EXISTS t", "DROP INDEX ti", "DROP INDEX IF EXISTS ti", "CREATE TABLE t(z)",
            "SELECT * FROM t",
            "ROLLBACK", "SELECT * FROM t", "BEGIN", "DROP TABLE t", "COMMIT", "SELECT * FROM t",
            "DROP TABLE IF EXISTS t",
        ]
        try pair.database.withoutTransaction { access in
            for sql in statements {
                var (rows, expected): ([String], [String]) = ([], [])
                let failure = Self.message { rows = texts(try access.fetchAll(sql)) }
                #expect(failure == Self.message { expected = texts(try pair.native.fetchAll(sql)) }, "\(sql)")
                #expect(rows == expected, "\(sql)")
            }
        }
    }
}
