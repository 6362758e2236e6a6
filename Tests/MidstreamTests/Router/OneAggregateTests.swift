import SQLText
import Testing

@testable import Midstream

/// The statements in which the order of a table's rows cannot show.
@Suite struct OneAggregateTests {
    private func isOne(_ text: String) throws -> Bool {
        let statement = try #require(SQLScript(text).first { $0.kind != .empty })
        return statement.isOneAggregate
    }

    @Test(arguments: [
        "SELECT max(a) FROM t", "select MIN ( a + (b, 1) ) as x FROM t WHERE a > 1", "SELECT count(a) FROM t AS u",
        "/* */ SELECT count(*) FROM t;",
    ])
    func isThere(_ text: String) throws {
        #expect(try isOne(text))
    }

    @Test(arguments: [
        "SELECT max(a, 1) FROM t", "SELECT max(a), b FROM t", "SELECT a FROM t", "SELECT max(a) + 1 FROM t",
        "SELECT max(a) FROM t GROUP BY b", "SELECT max(a) OVER () FROM t",
        "SELECT max(a) FROM (SELECT a FROM t LIMIT 5)",
        "SELECT sum(a) FROM t", "SELECT group_concat(a) FROM t", "SELECT b, max(a) FROM t",
        "SELECT max(a) FROM t UNION SELECT a FROM t", "SELECT max(a) FROM t WHERE b = lower(a)",
    ])
    func isNot(_ text: String) throws {
        #expect(try !isOne(text))
    }
}
