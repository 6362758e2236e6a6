import SQLiteConnection
import Testing

/// Scripts are read as upstream reads them.
@Suite struct LogicParserTests {
    private static func parse(_ text: String, _ names: Set<String> = ["sqlite"]) throws -> LogicScript {
        try LogicParser.parse(Array(text.utf8), name: "a script", names: names)
    }

    @Test func aRecordHasItsLineItsTextAndWhatMustComeOfIt() throws {
        let script = try Self.parse(
            """
            # a comment
            hash-threshold 8

            statement ok
            CREATE TABLE t(
              a)

            statement error
            nonsense
            \t
            query ITR rowsort label-1
            SELECT 1,
              'x', 2.5
            ----
            1
            x
            2.500

            query I
            SELECT 1
            ----
            9 values hashing to 75c998aa53ac83218cbf2feb962d0a49
            """.replacing("nonsense", with: "nonsense\r")
        )
        #expect(script.records.map(\.line) == [4, 8, 11, 19])
        #expect(
            script.records.map(\.sql)
                == ["CREATE TABLE t(\n  a)", "nonsense", "SELECT 1,\n  'x', 2.5", "SELECT 1"]
        )
        guard case .query(let first) = script.records[2].expectation,
            case .query(let second) = script.records[3].expectation
        else {
            Issue.record("two queries")
            return
        }
        #expect(first.types == "ITR" && first.sort == .rowsort && first.label == "label-1")
        #expect(first.expected == .list(["1", "x", "2.500"]))
        #expect(second.sort == .nosort && second.label == nil)
        #expect(second.expected == .hash(count: 9, md5: "75c998aa53ac83218cbf2feb962d0a49"))
    }

    @Test func conditionsLeaveTheNextRecordOut() throws {
        let text = """
            onlyif mysql # its own syntax
            statement ok
            a

            skipif mysql
            skipif SQLite
            statement ok
            b

            skipif mysql
            onlyif sqlite
            statement ok
            c

            onlyif windows
            query I
            d

            onlyif mssql
            halt

            statement ok
            e

            onlyif sqlite
            halt

            statement ok
            f
            """
        let script = try Self.parse(text)
        #expect(script.records.map(\.sql) == ["c", "e"])
        #expect(script.leftOut == 3)
        #expect(try Self.parse(text, ["sqlite", "windows"]).records.map(\.sql) == ["c", "d", "e"])
    }

    @Test(arguments: [
        ("statement", 1), ("statement maybe\nx", 1), ("\nquery\nSELECT 1", 2), ("query X\nSELECT 1", 1),
        ("query I sideways\nSELECT 1", 1), ("statement ok\n\nstatement ok", 2), ("skipif", 1), ("hash-threshold x", 1),
        ("unknown", 1),
    ])
    func whatIsNoScriptIsAnErrorWithItsLine(_ text: String, _ line: Int) {
        let error = #expect(throws: LogicSyntaxError.self) { try Self.parse(text) }
        #expect(error?.line == line)
    }

    @Test(arguments: [
        ("", "d41d8cd98f00b204e9800998ecf8427e"), ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"), ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a"
        ),
    ])
    func theDigestsAreThoseOfTheStandard(_ text: String, _ expected: String) {
        #expect(MD5.hex(text.utf8) == expected)
    }

    @Test func valuesAreWrittenAsTheirLettersSay() throws {
        let connection = try Connection(path: ":memory:")
        let sql = """
            SELECT NULL, 4294967297, '12abc', 'abc', 2.9, 1e20, 1, 0.0005, -2.5, '', 'tab\tnew
            é~', x'410042', 12, 1.5
            """
        let row = try connection.prepare(sql)
        #expect(try row.step())
        #expect(
            LogicValue.row(row, Array("IIIIIRRRRTTTTT".utf8))
                == [
                    "NULL", "1", "12", "0", "2", "100000000000000000000.000", "1.000", "0.001", "-2.500", "(empty)",
                    "tab@new@@@~", "A", "12", "1.5",
                ]
        )
    }

    @Test func resultsAreSortedAsTheQueryAsks() {
        let rows = [["2", "a"], ["10", "b"], ["10", "B"]]
        #expect(LogicAnswer.values(rows, .nosort) == .values(["2", "a", "10", "b", "10", "B"]))
        #expect(LogicAnswer.values(rows, .rowsort) == .values(["10", "B", "10", "b", "2", "a"]))
        #expect(LogicAnswer.values(rows, .valuesort) == .values(["10", "10", "2", "B", "a", "b"]))
    }
}
