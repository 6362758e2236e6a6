/// The tokens of one statement that SQLite's parser would see, and where the statement ends.
struct StatementTokens {
    private(set) var tokens: [Token] = []
    /// The keyword of each token.
    private(set) var words: [Keyword] = []
    /// The offset just after the semicolon that ends the statement, or of the first NUL, or of the end of the text.
    private(set) var endOffset: Int

    /// Takes the statement at an offset, including the semicolons before it.
    init(_ bytes: SQLBytes, at start: Int) {
        endOffset = start
        var tokenizer = SQLTokenizer(bytes, at: start)
        var ending = StatementEnding()
        let keywords = KeywordTable.shared
        while let token = tokenizer.next() {
            if bytes[token.range.lowerBound] == 0 { return }
            endOffset = token.range.upperBound
            if token.isTrivia || tokens.isEmpty && token.kind == .semicolon { continue }
            let word = token.kind == .identifier ? keywords.keyword(bytes.storage, token.range) : .none
            if ending.isEnd(token.kind, word) { return }
            tokens.append(token)
            words.append(word)
        }
    }
}
