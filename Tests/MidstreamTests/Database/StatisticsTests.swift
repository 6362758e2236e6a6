import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// What `Docs/COMPAT.md` says of each construct: seen through, drained for that reason, or refused.
@Suite struct StatisticsTests {
    private static let schema = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT);
        CREATE INDEX t_k ON t(k);
        CREATE UNIQUE INDEX t_name ON t(name);
        """
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) "
        + "INSERT INTO t SELECT i, i % 7, 'name ' || i FROM n"
    private static let extra = """
        CREATE TABLE other(x INTEGER PRIMARY KEY, y); INSERT INTO other VALUES (1, 'a'), (30, 'b');
        CREATE TABLE log(what);
        CREATE VIEW v AS SELECT id, k FROM t WHERE k < 5;
        CREATE TRIGGER v_insert INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES (NEW.k); END;
        CREATE TRIGGER v_update INSTEAD OF UPDATE ON v BEGIN UPDATE t SET k = NEW.k WHERE id = OLD.id; END;
        CREATE TRIGGER other_update AFTER UPDATE ON other BEGIN DELETE FROM t WHERE id = NEW.x; END;
        """

    private func pair(foreignKeys: Bool = false) throws -> Pair {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = foreignKeys
        return try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra + (foreignKeys ? "CREATE TABLE child(t REFERENCES t(id))" : ""),
            tables: ["t"],
            moved: 10,
            configuration: configuration
        )
    }

    /// Runs a statement on both sides. What it gives, and what it leaves behind, must be the same on both.
    private func compare(_ sql: String, _ pair: Pair) throws {
        func rows(_ body: () throws -> [Row]) -> [String] {
            do { return texts(try body()) } catch { return [(error as? SQLiteError)?.message ?? "\(error)"] }
        }
        let mine = rows { try pair.database.withoutTransaction { try $0.fetchAll(sql) } }
        let theirs = rows { try pair.native.fetchAll(sql) }
        #expect(mine == theirs)
        for table in ["t", "other", "log"] {
            let all = "SELECT rowid, * FROM \(table) ORDER BY rowid"
            let mine = rows { try pair.database.withoutTransaction { try $0.fetchAll(all) } }
            let theirs = rows { try pair.native.fetchAll(all) }
            #expect(mine == theirs, "\(table)")
        }
    }

    @Test(
        arguments: [
            "SELECT count(*) FROM t", "SELECT * FROM t WHERE k = 3 ORDER BY id",
            "SELECT t.id, y FROM t JOIN other ON x = id ORDER BY 1",
            "SELECT k, count(*), max(name) FROM t GROUP BY k ORDER BY k", "SELECT max(id) FROM main.t",
            "WITH w AS (SELECT k FROM t WHERE id > 30) SELECT * FROM w UNION SELECT y FROM other ORDER BY 1",
            "SELECT name FROM t INDEXED BY t_k WHERE k = 2 ORDER BY id", "SELECT rowid FROM t WHERE id = 39",
            "SELECT * FROM v ORDER BY id", "SELECT count(*) FROM main.v",
            "INSERT INTO t(k, name) VALUES (1, 'new')", "INSERT INTO t VALUES (35, 1, 'new')",
            "INSERT INTO t(name) VALUES ('name 35')", "INSERT OR IGNORE INTO t VALUES (35, 1, 'new')",
            "INSERT OR REPLACE INTO t VALUES (35, 1, 'name 36')", "REPLACE INTO t VALUES (35, 1, 'name 36')",
            "INSERT INTO t SELECT x + 100, x, y FROM other", "INSERT INTO t DEFAULT VALUES",
            "UPDATE t SET k = 9 WHERE k = 3", "UPDATE t SET id = id + 100 WHERE id = 39",
            "UPDATE t SET name = 'name 38' WHERE id = 39", "UPDATE t SET k = (SELECT count(*) FROM t) WHERE id > 35",
            "UPDATE t SET k = 1 WHERE id IN (SELECT x FROM other)", "UPDATE t SET k = abs(random()) % 1 WHERE id > 38",
            "UPDATE t SET k = 1 WHERE id > 38 AND random() IS NOT NULL", "DELETE FROM t WHERE k = 3", "DELETE FROM t",
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM other WHERE x = t.id)",
            "INSERT INTO log SELECT name FROM t ORDER BY id", "CREATE TABLE copy AS SELECT * FROM t",
            "CREATE VIEW w AS SELECT * FROM t", "DROP VIEW v", "DROP TRIGGER v_insert", "CREATE INDEX o ON other(y)",
            "CREATE TABLE IF NOT EXISTS t(x)", "CREATE INDEX IF NOT EXISTS t_k ON t(k)", "DROP INDEX t_k",
            "ALTER TABLE other ADD COLUMN z", "ANALYZE", "REINDEX", "REINDEX NOCASE", "REINDEX t", "REINDEX t_k",
            "REINDEX missing", "PRAGMA table_info(t)",
            "PRAGMA index_list(t)", "PRAGMA integrity_check", "INSERT INTO v(k) VALUES (3)",
            "CREATE TRIGGER i INSTEAD OF DELETE ON v BEGIN INSERT INTO log VALUES (OLD.id); END",
            "CREATE TRIGGER o AFTER INSERT ON other BEGIN INSERT INTO log SELECT count(*) FROM t; END",
        ] + SQLiteFeature.upsert.ifAvailable(["INSERT INTO t VALUES (35, 1, 'n') ON CONFLICT(id) DO UPDATE SET k = 99"])
            + SQLiteFeature.returning.ifAvailable(["DELETE FROM t WHERE id > 35 RETURNING name"])
            + SQLiteFeature.updateFrom.ifAvailable(["UPDATE t SET name = y FROM other WHERE x = id"])
            + SQLiteFeature.limitedWrites.ifAvailable(["DELETE FROM t ORDER BY id DESC LIMIT 3"])
            + SQLiteFeature.pragmaFunctions.ifAvailable([
                "SELECT name, type, pk FROM pragma_table_info('t')",
                "SELECT m.name, p.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS p WHERE m.name = 't'",
            ])
    )
    func whatIsSeenThroughOrPromotedDrainsNothing(_ sql: String) throws {
        let pair = try pair()
        try compare(sql, pair)
        #expect(pair.database.migrationStatistics.drained.isEmpty)
        #expect(pair.database.migrationStatistics.refused.isEmpty)
        #expect(try pair.database.readMigrationProgress().tables.first?.phase == .copying)
        try pair.finish()
    }

    @Test(
        arguments: [
            ("CREATE INDEX more ON t(k, name)", .schemaChange), ("CREATE UNIQUE INDEX one ON t(id, k)", .schemaChange),
            ("DROP INDEX t_name", .schemaChange), ("ALTER TABLE t ADD COLUMN z", .schemaChange),
            ("ALTER TABLE t RENAME TO u", .schemaChange),
            ("CREATE TRIGGER n AFTER DELETE ON t BEGIN SELECT 1; END", .schemaChange),
            ("CREATE TEMP TABLE t(x)", .temporaryTable), ("DROP TABLE t", .schemaChange), ("VACUUM", .vacuum),
            ("PRAGMA foreign_key_check", .foreignKeyCheck), ("UPDATE other SET x = 39 WHERE x = 30", .program),
            ("UPDATE v SET k = 1 WHERE id = 38", .program),
            ("INSERT INTO t(k) VALUES (last_insert_rowid()), (changes())", .earlierRows),
        ] as [(String, MigrationStatistics.Reason)]
            + SQLiteFeature.updateFrom.ifAvailable([
                ("UPDATE t SET k = 1 FROM other WHERE x = id AND random() IS NOT NULL", .chosenRows)
            ])
            + SQLiteFeature.pragmaFunctions.ifAvailable([
                ("SELECT name FROM pragma_table_info WHERE arg = 't'", .tableDescription),
                ("SELECT count(*) FROM pragma_foreign_key_check", .foreignKeyCheck),
            ])
    )
    func whatCannotBeSeenThroughDrainsAndIsCounted(_ sql: String, _ reason: MigrationStatistics.Reason) throws {
        let pair = try pair()
        try compare(sql, pair)
        #expect(pair.database.migrationStatistics.drained == ["t": [reason: 1]])
        #expect(pair.database.migrationStatistics.drains(of: "t") == 1)
        #expect(pair.database.migrationStatistics.refusals == 0)
        try pair.finish()
    }

    @Test(arguments: [
        "UPDATE t SET k = 1 WHERE id = 39", "DELETE FROM t WHERE id = 39", "INSERT INTO child VALUES (39)",
    ])
    func anEnforcedForeignKeyDrainsNothing(_ sql: String) throws {
        let pair = try pair(foreignKeys: true)
        try compare(sql, pair)
        #expect(pair.database.migrationStatistics.drained.isEmpty)
    }

    @Test(arguments: ["DROP TABLE child"]) func whatAnEnforcedForeignKeyDrainsIsCounted(_ sql: String) throws {
        let pair = try pair(foreignKeys: true)
        try compare(sql, pair)
        #expect(pair.database.migrationStatistics.drained == ["t": [.foreignKey: 1]])
    }

    @Test(.needs(.pragmaFunctions)) func whatIsRefusedIsCountedAndNamed() throws {
        let pair = try pair()
        let error = #expect(throws: MigrationError.self) {
            try pair.database.read { _ = try $0.fetchAll("SELECT * FROM pragma_table_info WHERE arg = 't'") }
        }
        #expect(error?.code == .refusedStatement)
        #expect(error?.reason == .tableDescription)
        try pair.database.withoutTransaction { access in
            try access.forEachRow("SELECT id FROM t") { _ in
                #expect(throws: MigrationError.self) { try access.execute("UPDATE other SET y = 2") }
                return false
            }
        }
        #expect(pair.database.migrationStatistics.refused == [.tableDescription: 1, .program: 1])
        #expect(pair.database.migrationStatistics.drained.isEmpty)
        // A statement that the writer runs in a reader's place is not counted as refused.
        _ = try pair.database.fetchAll("SELECT * FROM pragma_table_info WHERE arg = 't'")
        #expect(pair.database.migrationStatistics.refusals == 2)
        #expect(pair.database.migrationStatistics.drains(of: "t") == 1)
    }
}
