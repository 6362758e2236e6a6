import SQLText
import Testing

@Suite("Definitions of tables") struct CreateTableTests {
    @Test(
        "are equal by their words when they mean the same",
        arguments: [
            ("A || 'X'", "a /* more */ ||\n 'X'"), ("\"a\" + [B]", "a + `b`"), ("[two words]", "`Two Words`"),
            ("[select] + \"select\"", "`SELECT` + \"select\""),
        ] as [(String, String)]
    )
    func wordsOfTheSame(_ texts: (String, String)) {
        #expect(CreateTable.words(texts.0) == CreateTable.words(texts.1))
    }

    @Test(
        "are told apart by their words when they do not",
        arguments: [
            // A text in double quotes is a string if there is no column of that name.
            ("\"Hello\"", "\"hello\""), ("\"Hello\"", "hello"), ("'Hello'", "'hello'"), ("\"null\"", "null"),
            ("[true]", "true"), ("\"1\"", "1"), ("[a b]", "a b"), ("\"a\"\"b\"", "\"a\" \"b\""), ("x'61'", "x '61'"),
        ] as [(String, String)]
    )
    func wordsOfOthers(_ texts: (String, String)) {
        #expect(CreateTable.words(texts.0) != CreateTable.words(texts.1))
    }

    @Test("keep their SQL") func sqlOfAnExpression() throws {
        let text = "CREATE TABLE t(\"two words\" TEXT, made AS (\"two words\" || X /* no */ || 'Y' || \"Z\") STORED, x)"
        let table = try #require(CreateTable(text))
        let constraint = try #require(table.columns[1].constraints.first { $0.kind == .generated })
        let range = try #require(table.parentheses(of: constraint))
        #expect(table.sql(range) == "( \"two words\" || x || 'Y' || \"Z\" )")
    }

    @Test("compare foreign keys by names alone") func namesOfAForeignKey() throws {
        let tables = ["REFERENCES \"People\"([ID]) ON DELETE CASCADE", "references people(id) on delete cascade"].map {
            CreateTable("CREATE TABLE t(a \($0))")
        }
        let names = try tables.map { table in
            let table = try #require(table)
            return table.names(table.columns[0].constraints[0].body)
        }
        #expect(names[0] == names[1])
    }
}
