import SQLiteConnection
import Testing

@testable import Midstream

@Suite struct SQLLiteralTests {
    @Test(
        arguments: [
            (.null, "NULL"),
            (.integer(.min), "-9223372036854775808"),
            (.real(1.5), "1.5"),
            (.real(.nan), "NULL"),
            (.real(.infinity), "9e999"),
            (.real(-.infinity), "-9e999"),
            (.text("it's"), "'it''s'"),
            // To Swift, a quote and the accent behind it are one character.
            (.text("'\u{301}"), "'''\u{301}'"),
            (.text("a\0b"), "(CAST(x'610062' AS TEXT))"),
            (.blob([0, 0x0f, 0xff]), "x'000fff'"),
        ] as [(SQLiteValue, String)]
    )
    func theLiteralOfAValueGivesTheValueBack(_ value: SQLiteValue, _ literal: String) throws {
        #expect(SQLLiteral.text(of: value) == literal)
        let connection = try Connection(path: ":memory:")
        let found = try connection.fetchValue(SQLiteValue.self, "SELECT \(literal)") ?? .null
        if case .real(let real) = value, real.isNaN { #expect(found == .null) } else { #expect(found == value) }
    }

    @Test func aLongLiteralIsCutForPeople() {
        #expect(SQLLiteral.text(of: .text("abcdef"), atMost: 4) == "'abc…")
        #expect(SQLLiteral.text(of: .text("ab"), atMost: 4) == "'ab'")
    }
}
