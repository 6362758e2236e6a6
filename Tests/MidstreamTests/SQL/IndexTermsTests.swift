import Testing

@testable import Midstream

@Suite struct IndexTermsTests {
    @Test(
        arguments: [
            ("CREATE INDEX i ON t(a)", false, ["a"], nil),
            ("CREATE UNIQUE INDEX i ON t(a DESC, \"b c\" ASC)", true, ["a", "\"b c\""], nil),
            (
                "CREATE INDEX i ON t(lower(a || ','), b COLLATE NOCASE DESC)", false,
                ["lower ( a || ',' )", "b COLLATE NOCASE"], nil
            ),
            ("CREATE INDEX i ON t('a') WHERE a > 0 AND b IS NULL;", false, ["\"a\""], "a > 0 AND b IS NULL"),
        ] as [(String, Bool, [String], String?)]
    )
    func aDefinitionIsReadIntoItsTerms(_ sql: String, _ isUnique: Bool, _ terms: [String], _ condition: String?) {
        let found = IndexTerms(sql)
        #expect(found.isUnique == isUnique)
        #expect(found.terms == terms)
        #expect(found.condition == condition)
    }

    @Test func definitionsThatDifferInSpacesAndCaseHaveOneText() {
        #expect(
            IndexTerms("create index i on t( A,b )where a>0").text
                == IndexTerms("CREATE INDEX j ON u(a, B) WHERE a > 0").text
        )
        #expect(IndexTerms("CREATE INDEX i ON t(a)").text != IndexTerms("CREATE INDEX i ON t(a DESC)").text)
    }
}
