import SQLText
import Testing

@Suite("Edits")
struct SQLEditsTests {
    @Test("Edits in any order leave every other byte")
    func apply() throws {
        var edits = SQLEdits()
        edits.replace(7..<8, with: "bb")
        edits.insert("<", at: 7)
        edits.insert("2", at: 0)
        edits.insert(">", at: 8)
        edits.remove(2..<4)
        edits.insert("3", at: 0)
        #expect(try edits.apply(to: "0123é6789") == "2301é6<bb>89")
        #expect(try SQLEdits().apply(to: "é\0") == "é\0")
    }

    @Test("A range is rendered with the edits in it and at its ends")
    func extract() throws {
        var edits = SQLEdits()
        edits.replace(0..<2, with: "X")
        edits.insert("[", at: 2)
        edits.replace(3..<4, with: "Y")
        edits.insert("]", at: 5)
        edits.remove(5..<9)
        #expect(try edits.extract(2..<5, from: "0123456789") == "[2Y4]")
        #expect(try edits.extract(9..<10, from: "0123456789") == "9")
        #expect(try edits.extract(5..<5, from: "0123456789") == "]")
        #expect(throws: SQLEditError.overlap(1..<5, 0..<2)) { try edits.extract(1..<5, from: "0123456789") }
    }

    @Test(
        "Words that are put in stay apart from the words before them",
        arguments: [
            ("UPDATE[T]SET a = 1", "UPDATE main.[T]SET a = 1"), ("UPDATE T SET a = 1", "UPDATE main.T SET a = 1"),
            (#"SELECT 1 FROM"temp".T,(T)"#, "SELECT 1 FROM main.T,(main.T)"),
            ("SELECT 1 FROM(T)", "SELECT 1 FROM(main.T)"),
            ("SELECT 1 IN/**/[T]", "SELECT 1 IN/**/main.[T]"),
        ]
    )
    func words(_ text: String, _ edited: String) throws {
        let outline = SQLScript(text).outline()
        var edits = SQLEdits()
        for name in outline.tableReferences.map(\.name) {
            if let schema = name.schemaRange {
                edits.replace(schema, withWord: "main", of: outline)
            } else {
                edits.insertWord("main.", at: name.nameRange.lowerBound, of: outline)
            }
        }
        #expect(try edits.apply(to: text) == edited)
    }

    @Test("Edits that cannot be made are errors")
    func errors() {
        func error(_ text: String, _ collect: (inout SQLEdits) -> Void) -> SQLEditError? {
            var edits = SQLEdits()
            collect(&edits)
            do throws(SQLEditError) {
                _ = try edits.apply(to: text)
                return nil
            } catch {
                return error
            }
        }
        let twice = error("abc") {
            $0.remove(0..<2); $0.replace(1..<3, with: "")
        }
        #expect(twice == .overlap(0..<2, 1..<3))
        let same = error("abc") {
            $0.remove(0..<2); $0.remove(0..<2)
        }
        #expect(same == .overlap(0..<2, 0..<2))
        let inside = error("abc") {
            $0.remove(0..<3); $0.insert("x", at: 1)
        }
        #expect(inside == .overlap(0..<3, 1..<1))
        let beyond = error("abc") { $0.insert("x", at: 4) }
        #expect(beyond == .outOfBounds(4..<4, length: 3))
        let negative = error("abc") { $0.insert("x", at: -1) }
        #expect(negative == .outOfBounds(-1 ..< -1, length: 3))
        let split = error("é") { $0.insert("x", at: 1) }
        #expect(split == .splitsCharacter(1))
        let adjacent = error("abc") {
            $0.remove(0..<1); $0.remove(1..<2); $0.insert("x", at: 1)
        }
        #expect(adjacent == nil)
    }
}
