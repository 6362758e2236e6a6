import SQLText
import Testing

@Suite struct ExpressionShapeTests {
    @Test(
        "Names that may be columns'",
        arguments: [
            ("CAST(n AS TEXT)", ["n"]), ("CAST(n AS DECIMAL(10, 2)) || text", ["n", "text"]),
            ("date(sent) + \"date\"", ["sent", "date"]), ("a COLLATE NOCASE = b", ["a", "b"]),
            ("s.a || [b c]", ["a", "b c"]), ("CASE WHEN a IS NULL THEN 1 ELSE b END", ["a", "b"]),
            ("CASE a WHEN 1 THEN 2 END + end", ["a", "end"]), ("x NOT IN (1, y) AND 'z' <> x'61'", ["x", "y"]),
        ] as [(String, Set<String>)]
    )
    func columnNames(_ expression: String, _ expected: Set<String>) {
        #expect(ExpressionShape.columnNames(in: expression) == expected)
    }
}
