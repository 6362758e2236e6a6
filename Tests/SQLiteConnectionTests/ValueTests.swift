import SQLiteConnection
import Testing

@Suite struct `Values` {
    static let samples: [SQLiteValue] = [
        .null, 0, 1, -1, .integer(.min), .integer(.max), 0.0, -0.5, .real(.infinity), .real(-.infinity),
        .real(.greatestFiniteMagnitude), .real(.leastNonzeroMagnitude), "", "a", "a\0b", "\0", "é", "e\u{301}", "😀",
        .text(String(repeating: "long ", count: 10_000)), .blob([]), .blob([0]), .blob([0, 255, 0]),
        .blob(Array(repeating: 7, count: 100_000)),
    ]

    @Test(arguments: samples.indices) func `come back as they were bound`(index: Int) throws {
        let value = Self.samples[index]
        let connection = try memory()
        let row = try #require(try connection.fetchOne("SELECT ?1, typeof(?1)", Arguments(values: [value])))
        #expect(row[0] == value)
        let type: SQLiteValue =
            switch value {
            case .null: "null"
            case .integer: "integer"
            case .real: "real"
            case .text: "text"
            case .blob: "blob"
            }
        #expect(row[1] == type)
    }

    @Test(arguments: samples.indices) func `come back as they were stored`(index: Int) throws {
        let value = Self.samples[index]
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v)")
        try connection.execute("INSERT INTO t VALUES (?)", Arguments(values: [value]))
        #expect(try connection.fetchOne("SELECT v FROM t")?[0] == value)
    }

    @Test func `NaN is stored as NULL`() throws {
        #expect(try memory().fetchOne("SELECT ?", Arguments(values: [.real(.nan)]))?[0] == .null)
    }

    @Test func `text that is not UTF-8 is repaired, and its bytes are there`() throws {
        let statement = try memory().prepare("SELECT CAST(x'61ff62' AS TEXT)")
        #expect(try statement.step())
        #expect(statement.text(at: 0) == "a\u{fffd}b")
        #expect(statement.blob(at: 0) == [0x61, 0xff, 0x62])
    }

    @Test func `texts are equal when their bytes are`() {
        #expect(SQLiteValue.text("é") != .text("e\u{301}"))
        #expect(Set<SQLiteValue>(["é", "e\u{301}", "é"]).count == 2)
        #expect(SQLiteValue.integer(1) != .real(1))
        #expect(SQLiteValue.text("a") != .blob([0x61]))
    }

    @Test(arguments: ["UTF-8", "UTF-16le", "UTF-16be"]) func `text is read alike in every encoding`(encoding: String)
        throws
    {
        let connection = try memory()
        try connection.execute("PRAGMA encoding = '\(encoding)'")
        try connection.execute("CREATE TABLE t(v)")
        try connection.execute("INSERT INTO t VALUES ('häßlich😀')")
        let statement = try connection.prepare("SELECT v FROM t")
        #expect(try statement.step())
        #expect(statement.withBytes(at: 0) { Array($0) } == Array("häßlich😀".utf8))
        statement.reset()
        #expect(try statement.step())
        #expect(statement.blob(at: 0) == Array("häßlich😀".utf8))
        #expect(statement.text(at: 0) == "häßlich😀")
    }

    @Test func `conversions refuse what would lose information`() throws {
        #expect(Int8(sqliteValue: 128) == nil)
        #expect(Int8(sqliteValue: -128) == -128)
        #expect(UInt8(sqliteValue: -1) == nil)
        #expect(Int64(sqliteValue: 1.5) == nil)
        #expect(Int64(sqliteValue: 2.0) == 2)
        #expect(Int64(sqliteValue: .real(1e300)) == nil)
        #expect(String(sqliteValue: 1) == nil)
        #expect(Int?(sqliteValue: nil) == .some(nil))
        #expect(Int?(sqliteValue: "x") == nil)
        #expect(Bool(sqliteValue: 2) == true)
        #expect([UInt8](sqliteValue: "ab") == [0x61, 0x62])
    }

    @Test func `columns out of range read as NULL`() throws {
        let statement = try memory().prepare("SELECT 7")
        #expect(try statement.step())
        for index in [-1, 1, Int(Int32.max), 1 << 32, -(1 << 32), Int.max, Int.min] {
            #expect(statement.value(at: index) == .null)
            #expect(statement.int64(at: index) == 0)
            #expect(statement.text(at: index) == "")
            #expect(statement.blob(at: index) == [])
        }
    }

    /// A unique index with the collation does the same.
    @Test(arguments: [("BINARY", .binary), ("NOCASE", .nocase), ("RTRIM", .rtrim)] as [(String, BuiltInCollation)])
    func `that are equal are folded alike`(name: String, collation: BuiltInCollation) throws {
        let connection = try memory()
        let values: [SQLiteValue] = [
            0, 0.0, -0.0, 1, 1.0, 1.5, .integer(.max), 9.2233720368547758e18, .real(1e300), .real(.infinity), "", "a",
            "A", "a ",
            "a  ", "a\0b", "A\0B", "a\0c", "a\0cc", "\0", "\0 ", "\0\0", "é", "É", "1", .blob([0x61]), .blob([0x41]),
        ]
        func folded(_ value: SQLiteValue) throws -> ExactValue {
            let statement = try connection.prepare("SELECT ?")
            try statement.bind(value, at: 1)
            #expect(try statement.step())
            return RowReader(statement).exactValue(at: 0).folded(collation)
        }
        for left in values {
            for right in values {
                let isEqual = try connection.fetchValue(Bool.self, "SELECT ? = ? COLLATE \(name)", [left, right])
                #expect(try isEqual == (folded(left) == folded(right)), "\(left), \(right)")
            }
        }
    }
}
