import SQLText
import Testing

@Suite("Outlines of writes")
struct WriteOutlineTests {
    @Test("An UPDATE with all its clauses")
    func update() {
        let it = outline(
            """
            WITH w AS (SELECT 1) UPDATE OR IGNORE main.t AS x INDEXED BY i SET (a,b)=(1,2), c = CASE WHEN 1 THEN 2 END \
            FROM (SELECT 1 FROM p WHERE q) AS y JOIN z ON y.a IS DISTINCT FROM z.a WHERE x.a=(SELECT 1 WHERE 2) AND b \
            RETURNING a AS r, b ORDER BY a DESC LIMIT 1 OFFSET 2 ; SELECT 1
            """
        )
        #expect(it.kind == .update && it.isComplete)
        #expect(it.text(it.with) == "WITH w AS (SELECT 1)")
        #expect(it.text(it.verb) == "UPDATE")
        #expect(it.commonTables.map(\.name) == ["w"])
        #expect(it.conflict?.word == "ignore")
        #expect(it.text(it.target?.schemaRange) == "main" && it.text(it.target?.nameRange) == "t")
        #expect(it.text(it.target?.range) == "main.t")
        #expect(it.targetAlias?.name == "x")
        #expect(it.text(it.indexedBy) == "INDEXED BY i")
        #expect(it.text(it.set) == "(a,b)=(1,2), c = CASE WHEN 1 THEN 2 END")
        #expect(it.assignments.map(\.columns) == [["a", "b"], ["c"]])
        #expect(it.assignments.map { it.text($0.value) } == ["(1,2)", "CASE WHEN 1 THEN 2 END"])
        #expect(it.text(it.from) == "(SELECT 1 FROM p WHERE q) AS y JOIN z ON y.a IS DISTINCT FROM z.a")
        #expect(it.text(it.whereClause) == "x.a=(SELECT 1 WHERE 2) AND b")
        #expect(it.text(it.clauses.where?.range) == "WHERE x.a=(SELECT 1 WHERE 2) AND b")
        #expect(it.text(it.returning) == "a AS r, b")
        #expect(it.text(it.orderBy) == "a DESC")
        #expect(it.text(it.limit) == "1 OFFSET 2")
        #expect(it.text(it.endOffset - 1..<it.endOffset) == ";")
        #expect(it.text(it.range).hasSuffix("OFFSET 2"))
        #expect(it.referenceTexts == ["main.t x target", "p", "z"])
    }

    @Test("An INSERT with rows and upserts")
    func insertRows() throws {
        let it = outline(
            """
            INSERT INTO t AS x (a, "b c") VALUES (1, (2,3)), (max(4, 5), 'x') ON CONFLICT (a, b) WHERE c DO NOTHING \
            ON CONFLICT DO UPDATE SET a = excluded.a, b = 2 WHERE do RETURNING *
            """
        )
        #expect(it.kind == .insert && it.isComplete)
        #expect(it.targetAlias?.name == "x" && it.conflict == nil)
        #expect(it.text(it.columns) == "(a, \"b c\")")
        #expect(it.columnNames == ["a", "b c"])
        guard case .values(let rows, let range) = it.source else {
            Issue.record("\(String(describing: it.source))")
            return
        }
        #expect(it.text(range) == "VALUES (1, (2,3)), (max(4, 5), 'x')")
        #expect(rows.map { $0.map { it.text($0) } } == [["1", "(2,3)"], ["max(4, 5)", "'x'"]])
        #expect(
            it.upsert.map { it.text($0) } == [
                "ON CONFLICT (a, b) WHERE c DO NOTHING",
                "ON CONFLICT DO UPDATE SET a = excluded.a, b = 2 WHERE do",
            ]
        )
        #expect(it.text(it.returning) == "*")
        #expect(it.whereClause == nil)
    }

    @Test(
        "An INSERT's query ends where the upsert begins",
        arguments: [
            ("INSERT INTO t ", "SELECT a FROM b JOIN c ON b.x = c.x WHERE true", " ON CONFLICT DO NOTHING"),
            ("REPLACE INTO t(a) ", "WITH q AS (SELECT 1) SELECT * FROM q", ""),
            ("INSERT INTO t ", "VALUES (1) UNION SELECT 2 ORDER BY 1 LIMIT 2", " RETURNING a"),
            ("INSERT INTO t ", "SELECT 1", ""),
        ]
    )
    func insertQuery(_ head: String, _ query: String, _ tail: String) {
        let it = outline(head + query + tail)
        #expect(it.isComplete)
        #expect(it.source == .select(head.utf8.count..<(head + query).utf8.count))
        #expect(it.with == nil && it.commonTables.isEmpty)
    }

    @Test("REPLACE is INSERT OR REPLACE")
    func replace() {
        #expect(outline("REPLACE INTO t VALUES (1)").conflict?.word == "replace")
        #expect(outline("INSERT OR Rollback INTO t VALUES (1)").conflict?.word == "rollback")
        #expect(outline("INSERT INTO t DEFAULT VALUES").source == .defaultValues(14..<28))
    }

    @Test("A DELETE's WHERE, ORDER BY and LIMIT")
    func delete() {
        let it = outline("DELETE FROM 't' WHERE a IN (SELECT 1 FROM b WHERE c) ORDER BY d LIMIT 1 OFFSET 2")
        #expect(it.kind == .delete && it.isComplete)
        #expect(it.target?.name == "t")
        #expect(it.text(it.whereClause) == "a IN (SELECT 1 FROM b WHERE c)")
        #expect(it.text(it.orderBy) == "d")
        #expect(it.text(it.limit) == "1 OFFSET 2")
        #expect(it.referenceTexts == ["t target", "b"])
    }

    @Test(
        "What is not certain is not complete",
        arguments: [
            "UPDATE t x SET a = 1", "UPDATE t SET set = 1", "UPDATE t SET a = 1 WHERE", "INSERT INTO t",
            "INSERT INTO t (a b) VALUES (1)", "DELETE t", "DELETE FROM t WHERE trim(a FROM b)", "SELECT a FROM",
            "INSERT INTO t SELECT a FROM b ON CONFLICT DO NOTHING", "SELECT (1", "SELECT 1)", "SELECT 'a", "SELECT !1",
            "INSERT INTO t SELECT a FROM b ON CONFLICT (a) DO UPDATE SET a = 1", "WITH a AS (DELETE FROM t) SELECT 1",
            "MERGE INTO t USING u ON 1", "UPDATE t SET a = 1 WHERE b UNION c", "SELECT a.b.c.d", "FROM t SELECT a",
            "EXPLAIN", "EXPLAIN QUERY SELECT 1", "CREATE", "SELECT a FROM t WHERE b AS c", "ALTER TABLE t FROB",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1", "CREATE TRIGGER g INSERT ON t; END", "SELECT 1 IN",
            "SELECT a FROM t QUALIFY OVER (SELECT",
        ]
    )
    func incomplete(_ text: String) {
        #expect(!outline(text).isComplete)
    }
}
