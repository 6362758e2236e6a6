import SQLiteC
import Testing

@testable import SQLText

@Suite("Keywords")
struct KeywordTests {
    @Test("Each keyword's spelling is its own")
    func spellings() {
        #expect(Keyword.bySpelling.count == Keyword.allCases.count - 1)
        for (spelling, keyword) in Keyword.bySpelling {
            #expect("\(keyword)" == spelling)
            #expect(KeywordTable.shared.keyword(Array(spelling.uppercased().utf8), 0..<spelling.utf8.count) == keyword)
        }
        for word in ["", "a", "selec", "selects", "se\u{0}lect", "abcdefghijklmnopqrst"] {
            #expect(KeywordTable.shared.keyword(Array(word.utf8), 0..<word.utf8.count) == .none)
        }
    }

    @Test("The reserved words are those that SQLite takes for no column")
    func reserved() throws {
        let oracle = try SQLiteOracle()
        var index: Int32 = 0
        var length: Int32 = 0
        while let start = midstream_keyword(index, &length) {
            index += 1
            let bytes = UnsafeBufferPointer(start: start, count: Int(length)).map { UInt8(bitPattern: $0) }
            let word = String(decoding: bytes, as: UTF8.self)
            let isName = oracle.prepare("SELECT x.\(word) FROM (SELECT 1 AS \(word)) x") != nil
            let keyword = KeywordTable.shared.keyword(bytes, 0..<bytes.count)
            #expect(keyword.isReserved == !isName, "\(word)")
        }
    }
}
