import SQLText
import Testing

@Suite("Names")
struct SQLIdentifierTests {
    @Test(
        "A token's name is without its quotes",
        arguments: [
            ("a", "a"), (#""a""b""#, #"a"b"#), ("`a``b`", "a`b"), ("[a b]", "a b"), ("'it''s'", "it's"), ("", ""),
            ("\"", ""), (#""a"#, "a"), ("é", "é"),
        ]
    )
    func unquoted(_ token: String, _ name: String) {
        #expect(SQLIdentifier.unquoted(token) == name)
    }

    @Test("A quoted name is one token for the name", arguments: ["a", "", "a\"b", "[x]", "it's", "a b", "é"])
    func roundTrip(_ name: String) {
        let quoted = SQLIdentifier.quoted(name)
        let kinds = SQLTokenizer(quoted).map(\.kind)
        #expect(kinds == [.quotedIdentifier])
        #expect(SQLIdentifier.unquoted(quoted) == name)
    }

    @Test("Only the case of ASCII letters does not count")
    func equality() {
        #expect(SQLIdentifier.equal("Table_1", "tABLE_1"))
        #expect(!SQLIdentifier.equal("É", "é"))
        #expect(!SQLIdentifier.equal("e\u{301}", "\u{E9}"))
        #expect(!SQLIdentifier.equal("[", "{"))
        #expect(!SQLIdentifier.equal("a", "ab"))
        #expect(SQLIdentifier.lowercased("ÀB") == "Àb")
        #expect(SQLIdentifier.begins("Pragma_x", with: "pRAGMA_") && SQLIdentifier.begins("a", with: ""))
        #expect(!SQLIdentifier.begins("pragma", with: "pragma_") && !SQLIdentifier.begins("É", with: "é"))
    }

    @Test("A set finds names in any quotes and case")
    func nameSet() {
        let names = SQLNameSet(["accounts", "it's", "a\"b"])
        for text in ["SELECT * FROM ACCOUNTS", "x [Accounts]", "'it''s'", "\"A\"\"b\"", "main.`accounts`"] {
            #expect(SQLScript(text).mentionsAny(names), "\(text)")
        }
        for text in ["SELECT 1", "accounts2", "-- accounts", "/* accounts */ x", ":accounts", "x'ac'", ""] {
            #expect(!SQLScript(text).mentionsAny(names), "\(text)")
        }
        #expect(names.contains("Accounts"))
        // The set does not tell lengths apart from some length on, and these names are longer.
        let long = String(repeating: "Ab", count: 40)
        for name in [long, long + "c", String(long.prefix(63)), String(long.prefix(64))] {
            let set = SQLNameSet([name])
            #expect(set.contains(name.uppercased()) && SQLScript("x \(name) y").mentionsAny(set))
            #expect(!set.contains(name + "d") && !set.contains(String(name.dropLast())))
        }
        #expect(!SQLScript("accounts").mentionsAny([]))
    }
}
