import SQLText
import Testing

@Suite("Outlines of other statements")
struct SchemaOutlineTests {
    @Test(
        "Kinds and targets",
        arguments: [
            ("CREATE TEMP TABLE IF NOT EXISTS main.t(a)", StatementKind.createTable, "main.t"),
            ("CREATE UNIQUE INDEX i ON t(a)", .createIndex(unique: true), "i"),
            ("CREATE INDEX main.i ON t(a)", .createIndex(unique: false), "main.i"),
            ("CREATE VIEW v AS SELECT 1", .createView, "v"),
            ("CREATE TRIGGER g INSTEAD OF UPDATE ON t BEGIN SELECT 1; END", .createTrigger, "g"),
            ("CREATE VIRTUAL TABLE f USING fts5", .createVirtualTable, "f"),
            ("DROP TABLE t", .dropTable, "t"), ("DROP INDEX IF EXISTS main.i", .dropIndex, "main.i"),
            ("DROP VIEW v", .dropView, "v"), ("DROP TRIGGER g", .dropTrigger, "g"),
            ("ALTER TABLE t DROP COLUMN a", .alterTable, "t"),
            ("PRAGMA main.cache_size(3)", .pragma, "main.cache_size"),
            ("BEGIN EXCLUSIVE", .begin, nil), ("END", .commit, nil), ("COMMIT", .commit, nil),
            ("ROLLBACK", .rollback, nil),
            ("ROLLBACK TO a", .rollbackTo, "a"), ("SAVEPOINT a", .savepoint, "a"), ("RELEASE a", .release, "a"),
            ("ATTACH 'f' AS s", .attach, "s"), ("DETACH s", .detach, "s"), ("VACUUM s", .vacuum, "s"),
            ("REINDEX", .reindex, nil), ("ANALYZE main.t", .analyze, "main.t"), ("EXPLAIN VACUUM", .explain, nil),
            ("", .empty, nil), (" ; -- x", .empty, nil), ("FROB t", .other, nil),
        ] as [(String, StatementKind, String?)]
    )
    func kinds(_ text: String, _ kind: StatementKind, _ target: String?) {
        let it = outline(text)
        #expect(it.kind == kind)
        #expect(it.text(it.target?.range) == target)
        #expect(it.isComplete == (kind != .other))
    }

    @Test("A trigger's statements are not its own")
    func trigger() {
        let it = outline(
            "CREATE TEMP TRIGGER g BEFORE UPDATE OF a, b ON main.t BEGIN UPDATE u SET c = 1 WHERE d; END; SELECT 1"
        )
        #expect(it.isComplete && it.isTemporary)
        #expect(it.text(it.onTable?.range) == "main.t")
        #expect(it.columnNames == ["a", "b"])
        #expect(it.whereClause == nil && it.assignments.isEmpty && it.target?.name == "g")
        #expect(it.text(it.range).hasSuffix("END"))
    }

    @Test("An EXPLAIN has the parts of what it explains")
    func explain() {
        let it = outline("EXPLAIN QUERY PLAN DELETE FROM t WHERE a")
        #expect(it.kind == .explain && it.explained == .delete && it.isQueryPlan)
        #expect(it.target?.name == "t" && it.text(it.whereClause) == "a")
    }

    @Test("Arguments are what is left")
    func arguments() {
        #expect(outline("PRAGMA user_version = -3").arguments == 22..<24)
        #expect(outline("PRAGMA table_info('t')").arguments == 18..<21)
        #expect(outline("ALTER TABLE t RENAME TO u").arguments == 14..<25)
        #expect(outline("BEGIN IMMEDIATE TRANSACTION").arguments == 6..<15)
    }
}
