import SQLText
import Testing

@Suite("Deep and long texts")
struct DepthTests {
    private func repeated(_ text: String, _ count: Int) -> String {
        String(repeating: text, count: count)
    }

    @Test("Parentheses in an expression may nest without limit")
    func parentheses() {
        let it = outline("SELECT " + repeated("(", 200_000) + "1" + repeated(")", 200_000) + " FROM t")
        #expect(it.isComplete)
        #expect(it.referenceTexts == ["t"])
    }

    @Test(
        "Queries and joins that nest too deep leave the outline incomplete",
        arguments: [
            "(SELECT ", "(SELECT * FROM (", "f(SELECT (", "(WITH a AS (SELECT ", "1 IN (VALUES (", "CASE WHEN (SELECT ",
            "EXISTS (SELECT 1 FROM t WHERE ", "(SELECT * FROM ((", "(", "(SELECT max(1) OVER (ORDER BY ",
        ]
    )
    func nesting(_ head: String) {
        for prefix in ["SELECT ", "SELECT * FROM (((", "CREATE VIEW v AS SELECT ", "UPDATE t SET a = "] {
            let it = outline(prefix + repeated(head, 50_000))
            #expect(!it.isComplete)
            #expect(it.kind != .other)
        }
    }

    @Test("Queries dozens of levels deep are outlined")
    func dozens() {
        let it = outline("SELECT " + repeated("(SELECT a FROM (", 19) + "t" + repeated("))", 19) + "; SELECT 2")
        #expect(it.isComplete)
        #expect(it.tableReferences.count == 1)
    }

    @Test("Work is linear in the text")
    func linear() {
        // If the work grew with the square of the length, this would take far longer than all other tests.
        let count = 20_000
        let texts = [
            "INSERT INTO t VALUES " + repeated("(1, ?, :a, 'b'), ", count) + "(1)",
            "SELECT a" + repeated(" UNION SELECT a FROM t", count),
            "WITH " + repeated("a AS (SELECT 1), ", count) + "b AS (SELECT 2) SELECT 1",
            "SELECT * FROM t" + repeated(" JOIN u ON 1", count),
            "SELECT " + repeated("a.b.c, ", count) + "1",
            "CREATE TRIGGER g DELETE ON t BEGIN " + repeated("SELECT 1 FROM t;", count) + "END",
            "SELECT 1" + repeated(" IN t", count),
        ]
        for text in texts { #expect(outline(text).isComplete, "\(text.prefix(60))") }
        #expect(SQLScript(repeated("SELECT 1;", count)).reduce(0) { sum, _ in sum + 1 } == count)
    }
}
