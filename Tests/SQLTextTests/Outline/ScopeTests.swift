import SQLCorpus
import SQLText
import Testing

@Suite("Tables and scopes")
struct ScopeTests {
    @Test(
        "References and what common tables hide",
        arguments: [
            ("SELECT * FROM a, b AS x, main.c y JOIN (d CROSS JOIN e) USING (k)", ["a", "b x", "main.c y", "d", "e"]),
            (
                "SELECT 1 IN t, 2 NOT IN main.u, 3 IN f(4), 5 IN (t)",
                ["t inOperator", "main.u inOperator", "f inOperator function"]
            ),
            ("SELECT * FROM f(1, (SELECT 2 FROM a)) AS g", ["a", "f g function"]),
            (
                "WITH t AS (SELECT 1 FROM u), u AS (SELECT 2) SELECT * FROM t, main.t, v",
                ["u hidden", "t hidden", "main.t", "v"]
            ),
            ("WITH t AS (SELECT 1) INSERT INTO t SELECT * FROM T", ["t target", "T hidden"]),
            (
                "INSERT INTO t WITH t AS (SELECT 1) SELECT * FROM t RETURNING (SELECT 1 FROM t)",
                ["t target", "t hidden", "t"]
            ),
            ("SELECT (WITH t AS (SELECT 1) SELECT * FROM t), (SELECT 1 FROM t)", ["t hidden", "t"]),
            ("WITH t AS (SELECT 1) SELECT 1 UNION SELECT (SELECT 2 IN t) FROM u", ["t inOperator hidden", "u"]),
            ("WITH t AS (SELECT 1) UPDATE t SET a = 1 FROM t AS o", ["t target", "t o hidden"]),
            ("SELECT * FROM left LEFT JOIN right", ["left", "right"]),
            ("SELECT * FROM t key JOIN u AS left ON left.a = key.left LEFT JOIN v", ["t key", "u left", "v"]),
            ("SELECT a FROM t INDEXED BY i, u NOT INDEXED", ["t", "u"]),
            (
                "SELECT 1 FROM t GROUP BY (SELECT 1 FROM a) HAVING (SELECT 1 FROM b) ORDER BY (SELECT 1 FROM c) LIMIT (SELECT 1 FROM d)",
                ["t", "a", "b", "c", "d"]
            ),
            ("SELECT max(a) OVER (PARTITION BY (SELECT 1 FROM a) ORDER BY b) FROM t", ["a", "t"]),
            ("SELECT 1 FROM t WINDOW w AS (ORDER BY (SELECT 1 FROM a)), x AS () LIMIT 1", ["t", "a"]),
            ("SELECT group_concat(a, ',' ORDER BY (SELECT 1 FROM u)) WITHIN GROUP (ORDER BY b) FROM t", ["u", "t"]),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE (SELECT 1 FROM u) DO UPDATE SET a = (SELECT 1 FROM v)",
                ["t target", "u", "v"]
            ),
            ("CREATE VIEW v AS SELECT * FROM t", ["t"]),
            (
                "CREATE TRIGGER g DELETE ON o WHEN (SELECT 1 FROM w) BEGIN INSERT INTO a SELECT * FROM b; DELETE FROM c WHERE x IN d; END",
                ["w", "a target", "b", "c target", "d inOperator"]
            ),
            ("EXPLAIN QUERY PLAN SELECT * FROM t", ["t"]),
            ("SELECT ((((SELECT 1 FROM ((((t))))))))", ["t"]),
        ]
    )
    func references(_ text: String, _ expected: [String]) {
        let it = outline(text)
        #expect(it.isComplete)
        #expect(it.referenceTexts == expected)
    }

    @Test("Columns named with table and schema")
    func qualified() {
        let it = outline("SELECT main.t.a, t.b, \"main\" . [t] . * FROM main.t WHERE temp.t.c")
        #expect(
            it.qualifiedReferences.map { "\($0.schema)|\($0.table)|\($0.column)" } == [
                "main|t|a", "main|t|*", "temp|t|c",
            ]
        )
        #expect(it.text(it.qualifiedReferences[1].tableRange) == "[t]")
    }

    @Test("Calls are names before a parenthesis")
    func calls() {
        let it = outline(
            "SELECT Max(a), \"f\"(1), count(*) FILTER (WHERE b) OVER (ORDER BY c), replace(a, 1, 2) FROM j(1) WHERE a IN (1) AND (2)"
        )
        #expect(it.isComplete)
        #expect(it.functionCalls.map(\.name) == ["max", "f", "count", "replace", "j"])
    }

    @Test("Each scope's parent comes before it")
    func parents() {
        for text in Corpus.all {
            let it = outline(text)
            for (index, scope) in it.scopes.enumerated() {
                #expect(index == 0 ? scope.parent == nil : (scope.parent ?? index) < index, "\(text)")
            }
            for reference in it.tableReferences { #expect(it.scopes.indices.contains(reference.scope)) }
        }
    }

    @Test("A statement mentions names in any form, but not in comments")
    func mentions() {
        let it = outline("SELECT 'A' FROM [b] -- c\n; SELECT d")
        #expect(it.mentions(["a"]) && it.mentions(["x", "b"]))
        #expect(!it.mentions(["c"]) && !it.mentions(["d"]))
    }

    @Test(
        "A row value before IN, at any depth",
        arguments: [
            ("SELECT 1 FROM t WHERE (a, b) IN (SELECT 1, 2)", true),
            ("SELECT 1 FROM t WHERE (a, f(b, c)) NOT IN u", true),
            ("DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE 1 = 1 AND (a, (b)) IN (SELECT c, d FROM w))", true),
            ("SELECT iif((a, b) IN (SELECT 1, 2), 1, 2)", true),
            ("SELECT 1 FROM t WHERE f(a, b) IN (SELECT 1)", false),
            ("SELECT 1 FROM t WHERE a IN (1, 2) AND (a) IN (1, 2)", false),
            ("SELECT 1 FROM t WHERE (a, b) = (1, 2)", false),
            (
                "CREATE TRIGGER g DELETE ON t BEGIN SELECT 1 WHERE (old.a, 1) IN (SELECT c, d FROM w); SELECT 2; END",
                true
            ),
            ("INSERT INTO t(a, b) VALUES (1, 2)", false),
        ]
    )
    func rowMembership(_ text: String, _ expected: Bool) {
        #expect(outline(text).hasRowMembership == expected)
        #expect(outline(text).isComplete)
    }

    /// An operator of two words, and a column of a table with the name of a join.
    @Test(arguments: ["LIKE", "GLOB", "REGEXP", "MATCH"]) func negatedPatterns(_ word: String) {
        let it = outline("SELECT id FROM t WHERE (name NOT \(word) left) AND b > a AND a = 1 AND NOT like(b, a)")
        #expect(it.isComplete)
        #expect(it.whereClause != nil)
    }

    @Test(
        "Names that stand twice in a condition",
        arguments: [
            ("SELECT 1 FROM t WHERE id = 1 AND a > \"ID\"", true),
            ("SELECT 1 FROM t WHERE t.id = 1 AND t.a > id", true),
            ("SELECT id, id FROM t WHERE id = 1 AND t.a > 'id' AND t.b > 2 AND lower(c) > lower(d)", false),
        ]
    )
    func repeatedNames(_ text: String, _ expected: Bool) throws {
        let it = outline(text)
        #expect(it.repeatsName(in: try #require(it.whereClause)) == expected)
    }

    @Test("Common tables at any depth")
    func allCommonTables() {
        let it = outline("WITH A AS (SELECT 1) SELECT * FROM a, (WITH \"b\" AS (SELECT 2) SELECT * FROM b)")
        #expect(it.allCommonTables == ["a", "b"])
    }

    @Test("A comma after ON begins a table")
    func commaAfterOn() {
        let it = outline("SELECT 1 FROM a JOIN b ON a.x = f(b.y, 1), main.c AS d, e")
        #expect(it.isComplete)
        #expect(Set(it.tableReferences.map(\.name.name)) == ["a", "b", "c", "e"])
    }
}
