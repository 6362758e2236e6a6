import SQLText
import Testing

@Suite struct TypeNameTests {
    @Test(arguments: [
        "", "TEXT", "VARCHAR(10)", "DECIMAL(10, 5)", "UNSIGNED BIG INT", "timestamp with time zone", "DATE", "key", "é",
    ])
    func meansTheSameWithoutQuotes(_ type: String) {
        #expect(TypeName.isPlain(type))
    }

    @Test(arguments: [
        "NOT NULL", "PRIMARY KEY", "CHECK(0)", "DEFAULT 5", "INT, q", "x)", "a\"b", "x /* ", "x -- y", "(10)", "INT(1",
        "INT(a)", "INT(1,)",
        "INT(1)(2)", "5", "'a'", "a.b", "left", "a;", "collate nocase",
    ])
    func meansSomethingElse(_ type: String) {
        #expect(!TypeName.isPlain(type))
    }

    @Test func itsWordsAreInLowerCase() {
        #expect(TypeName.words("Text HIDDEN(5)") == ["text", "hidden"])
    }
}
