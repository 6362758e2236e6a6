import SQLiteConnection
import Testing

/// The columns of record types.
@Suite struct RecordColumnTests {
    enum Color: String, Codable, CaseIterable { case red, green }
    enum Level: Int8, Codable { case low = 1, high = 2 }
    enum Word: String, Codable { case no, yes }

    struct Name: Codable {
        var text: String
        init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }
    }

    struct Everything: Codable {
        var id: Int64?
        var count: UInt8
        var yes: Bool
        var ratio: Double
        var small: Float?
        var text: String
        var bytes: [UInt8]
        var color: Color
        var level: Level
        var word: Word?
        var name: Name
        var given = "x"
        enum CodingKeys: String, CodingKey {
            case id, count, yes, ratio, small, text, bytes, color, level, word
            case name = "full_name"
        }
    }

    private func columns<Record: Decodable>(_ type: Record.Type) throws -> [String] {
        try RecordColumn.columns(of: type).map { "\($0.name) \($0.storage.rawValue)\($0.isOptional ? "?" : "")" }
    }

    @Test func aTypeTellsItsColumns() throws {
        #expect(
            try columns(Everything.self) == [
                "id INTEGER?", "count INTEGER", "yes INTEGER", "ratio REAL", "small REAL?", "text TEXT", "bytes BLOB",
                "color TEXT", "level INTEGER", "word TEXT?", "full_name TEXT",
            ]
        )
    }

    @Test func whatCannotBeMadeUpIsNamed() throws {
        struct Unknown: Codable {
            var a: Int
            var word: Word
        }
        struct Nested: Codable {
            var a: [String]
        }
        let error = #expect(throws: SQLiteError.self) { try RecordColumn.columns(of: Unknown.self) }
        #expect(error?.message.contains("property word") == true)
        let other = #expect(throws: SQLiteError.self) { try RecordColumn.columns(of: Nested.self) }
        #expect(other?.message.contains("property a") == true)
    }
}
