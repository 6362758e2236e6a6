import SQLiteConnection
import Testing

@Suite struct `Comparison of columns` {
    static let values: [SQLiteValue] = [
        .null, 0, 1, -1, 2, .integer(.min), .integer(.min + 1), .integer(.max), .integer(.max - 1),
        .integer(9_007_199_254_740_992), .integer(9_007_199_254_740_993), 0.0, 0.5, -0.5, 1.0, 1.5, -1.5,
        9_007_199_254_740_992.0, 9_223_372_036_854_775_807.0, -9_223_372_036_854_775_808.0, .real(1e300), .real(-1e300),
        .real(.infinity), .real(-.infinity), .real(.leastNonzeroMagnitude), "", " ", "  ", "a", "A", "b", "B", "a ",
        "a  ", "A ", "ab", "aB", "a b", "a\0", "a\0b", "A\0c", "[", "_", "`", "z", "Z", "é", "É", "\u{ffff}", "😀",
        "\u{100}", "\u{7f}", .blob([]), .blob([0]), .blob([0x61]), .blob([0x41]), .blob([0x61, 0x20]), .blob([255]),
    ]

    @Test(arguments: ["BINARY", "NOCASE", "RTRIM"], ["UTF-8", "UTF-16le", "UTF-16be"])
    func `agrees with SQLite's`(collation: String, encoding: String) throws {
        let connection = try memory()
        try connection.execute("PRAGMA encoding = '\(encoding)'")
        try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        for value in Self.values { try connection.execute("INSERT INTO t(v) VALUES (?)", Arguments(values: [value])) }
        // ORDER BY is the oracle: sorting gives the rank of each group.
        let (left, right) = (
            try connection.prepare("SELECT v FROM t WHERE id = ?"),
            try connection.prepare("SELECT v FROM t WHERE id = ?")
        )
        let first = try connection.prepare(
            "SELECT id FROM t WHERE id IN (?1, ?2) ORDER BY v COLLATE \(collation), id LIMIT 1"
        )
        let native = try #require(BuiltInCollation(name: collation.lowercased()))
        for a in 1...Self.values.count {
            for b in 1...Self.values.count {
                for (statement, id) in [(left, a), (right, b)] {
                    statement.reset()
                    try statement.bind(Int64(id), at: 1)
                    #expect(try statement.step())
                }
                let order = left.compare(column: 0, with: right, column: 0, collation: native)
                // If two are equal, the smaller id wins. So the test asks both ways.
                try first.bind(Int64(a), at: 1)
                try first.bind(Int64(b), at: 2)
                #expect(try first.step())
                let winner = first.int64(at: 0)
                first.reset()
                let agrees = a == b ? order == 0 : a < b ? (winner == a) == (order <= 0) : (winner == b) == (order >= 0)
                #expect(agrees, "\(Self.values[a - 1]) and \(Self.values[b - 1]): \(order)")
            }
        }
    }

    @Test func `knows the built-in collations`() {
        #expect(BuiltInCollation(name: "nocase") != nil)
        #expect(BuiltInCollation(name: "b\u{131}nary") == nil)
        #expect(BuiltInCollation(name: "german") == nil)
    }
}
