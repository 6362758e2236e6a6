import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Statements that reach, or would reach, the overlay's own objects in `temp`.
@Suite struct NamedInTempTests {
    private func pair(extra: String = "") throws -> Pair {
        try Pair(
            schema:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER CHECK (a > 0), b); CREATE INDEX part ON t(a) WHERE a > 1",
            rows: "INSERT INTO t VALUES (7, 2, 3), (8, 3, 3), (9, 4, 4)",
            extra: extra,
            tables: ["t"],
            moved: 1
        )
    }

    @Test func theUnionTableCannotBeDropped() throws {
        let pair = try pair()
        try pair.database.execute("DROP TABLE IF EXISTS temp.t")
        try pair.native.execute("DROP TABLE IF EXISTS temp.t")
        let error = #expect(throws: SQLiteError.self) { try pair.database.execute("DROP TABLE temp.t") }
        let expected = #expect(throws: SQLiteError.self) { try pair.native.execute("DROP TABLE temp.t") }
        #expect(error?.message == expected?.message)
        for sql in ["UPDATE t SET b = (SELECT max(a) FROM t)", "DELETE FROM t WHERE a < (SELECT avg(a) FROM t)"] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        let all = "SELECT * FROM main.t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test func integrityIsThatOfTheTable() throws {
        let pair = try pair()
        for sql in [
            "PRAGMA ignore_check_constraints = 1", "INSERT INTO t VALUES (1, -5, 0)",
            "PRAGMA ignore_check_constraints = 0",
        ] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        for sql in ["PRAGMA integrity_check(t)", "PRAGMA quick_check('t')", "PRAGMA integrity_check"] {
            // On a connection that only reads, SQLite does not check CHECK constraints.
            let found = try pair.database.write { try $0.fetchAll(sql) }
            #expect(texts(found) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    @Test func aPartialIndexIsNamedInAWriteWhoseKeysAreCollected() throws {
        let pair = try pair()
        for sql in [
            "DELETE FROM t INDEXED BY part WHERE a > 1 AND b = 3 AND random() IS NOT NULL AND id = 8",
            "UPDATE t INDEXED BY part SET b = 0 WHERE a > 1 AND b < datetime('now')",
        ] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        let missing = "DELETE FROM t INDEXED BY none WHERE a > 1 AND random() IS NULL"
        #expect(throws: SQLiteError.self) { try pair.native.execute(missing) }
        #expect(throws: SQLiteError.self) { try pair.database.execute(missing) }
        let all = "SELECT * FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test(.needs(.pragmaFunctions)) func aParameterNamesTheTableThatAWriteDescribes() throws {
        let pair = try pair()
        let sql = "DELETE FROM t WHERE id IN (SELECT cid + 8 FROM pragma_table_info(:p) WHERE pk = 1)"
        try pair.database.execute(sql, ["p": "t"])
        try pair.native.execute(sql, ["p": "t"])
        let all = "SELECT * FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }
}
