import SQLText

/// The same statement with other spaces and quotes. A change by byte ranges could turn these into other tokens.
enum Spelling {
    static func others(of outline: StatementOutline, in text: String) -> [String] {
        [squeezed(outline, in: text), spread(outline, in: text)]
    }

    /// Writes table names in brackets, which need no space around them, and leaves out every space that is not needed.
    private static func squeezed(_ outline: StatementOutline, in text: String) -> String {
        var edits = SQLEdits()
        func bracket(_ range: Range<Int>, _ name: String) {
            if !name.contains("]") { edits.replace(range, with: "[\(name)]") }
        }
        for name in outline.tableReferences.map(\.name) {
            bracket(name.nameRange, name.name)
            if let range = name.schemaRange, let schema = name.schema { bracket(range, schema) }
        }
        for column in outline.qualifiedReferences {
            bracket(column.schemaRange, column.schema)
            bracket(column.tableRange, column.table)
        }
        let quoted = (try? edits.extract(outline.range, from: text)) ?? outline.text(outline.range)
        var result = ""
        var last = ""
        for token in words(of: quoted) {
            if !last.isEmpty, !staysApart(last, token) { result += " " }
            result += token
            last = token
        }
        return result
    }

    /// Puts a comment and a line end between any two tokens.
    private static func spread(_ outline: StatementOutline, in text: String) -> String {
        words(of: outline.text(outline.range)).joined(separator: "/*'*/\n")
    }

    private static func words(of text: String) -> [String] {
        let bytes = Array(text.utf8)
        return SQLTokenizer(text).filter { !$0.isTrivia }.map { String(decoding: bytes[$0.range], as: UTF8.self) }
    }

    /// Whether two tokens without a space between them stay these two tokens, whatever follows.
    private static func staysApart(_ first: String, _ second: String) -> Bool {
        let tokens = Array(SQLTokenizer(first + second + " a"))
        return tokens.count > 2 && tokens[0].range == 0..<first.utf8.count
            && tokens[1].range.upperBound == first.utf8.count + second.utf8.count
    }
}
