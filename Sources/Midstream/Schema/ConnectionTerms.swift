internal import SQLText

/// The terms of an expression on a row that may give another value at another time or on another connection, although SQLite allows
/// them in an index; and the terms that may fail.
struct ConnectionTerms {
    /// Whether the expression may ask for the time or the time zone. In an index, SQLite refuses this only when it adds a row.
    let hasTime: Bool
    /// The columns, in lower case, that are given to functions of dates. Such a function takes the text `now` for the present time.
    let timeColumns: Set<String>
    /// Whether the expression has LIKE. `PRAGMA case_sensitive_like` changes LIKE for one connection alone.
    let hasLike: Bool

    /// Whether the expression has a function or an operator that fails on some values.
    let mayFail: Bool

    static let timeFunctions: Set = ["date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"]
    private static let presentTime: Set = ["current_date", "current_time", "current_timestamp"]
    /// Words that functions of dates take for the present time, or for something that depends on the time zone.
    private static let presentWords: Set = ["now", "localtime", "utc", "subsec", "subsecond"]

    /// Functions that have a value for any arguments. A function that is missing here costs a look at each row.
    private static let unfailing = timeFunctions.union(
        words(
            "coalesce hex ifnull iif instr json_valid length likelihood likely lower ltrim max min nullif octet_length quote "
                + "replace round rtrim sign substr substring trim typeof unhex unicode unlikely upper"
        )
    )
    /// Words that are not functions although parentheses may follow them.
    private static let keywords = words(
        "and as between case cast collate else escape exists in is like not or then when"
    )

    private static func words(_ text: String) -> Set<String> { Set(text.split(separator: " ").map(String.init)) }

    init(_ text: String, of source: TableSchema) {
        let words = Words(text, source)
        mayFail = words.tokens.indices.contains { index in
            words.isPathOperator(at: index) || words.isPattern(at: index)
                || words.isCall(at: index) && !Self.unfailing.contains(words.name(at: index))
                    && !Self.keywords.contains(words.name(at: index))
        }
        hasLike = words.tokens.indices.contains { words.isKeyword("like", at: $0) }
        var (hasTime, columns) = (false, Set<String>())
        for index in words.tokens.indices {
            if words.tokens[index].kind == .identifier, Self.presentTime.contains(words.name(at: index)) {
                hasTime = true
            }
            guard words.isCall(at: index), Self.timeFunctions.contains(words.name(at: index)) else { continue }
            if let found = words.columnsOfFixedTime(at: index) { columns.formUnion(found) } else { hasTime = true }
        }
        (self.hasTime, timeColumns) = (hasTime, columns)
    }

    /// Looks at an expression, and at the generated columns that it reads.
    init(_ text: String, of source: TableSchema, readingGenerated: Bool) {
        let generated = readingGenerated ? GeneratedColumns(createTable: source.sql).readBy(text) : []
        self.init(([text] + generated).joined(separator: "\n, "), of: source)
    }

    private struct Words {
        let tokens: [Token]
        private let bytes: [UInt8]
        private let source: TableSchema

        init(_ text: String, _ source: TableSchema) {
            tokens = SQLTokenizer(text).filter { !$0.isTrivia }
            bytes = Array(text.utf8)
            self.source = source
        }

        private func text(at index: Int) -> String { String(decoding: bytes[tokens[index].range], as: UTF8.self) }

        private func kind(at index: Int) -> TokenKind? { tokens.indices.contains(index) ? tokens[index].kind : nil }

        /// The name or text that a token stands for, in lower case.
        func name(at index: Int) -> String { SQLIdentifier.lowercased(SQLIdentifier.unquoted(text(at: index))) }

        func isCall(at index: Int) -> Bool {
            (tokens[index].kind == .identifier || tokens[index].kind == .quotedIdentifier)
                && kind(at: index + 1) == .leftParen
        }

        /// Whether a token is `->` or `->>`.
        func isPathOperator(at index: Int) -> Bool {
            tokens[index].kind == .operator && text(at: index).hasPrefix("->")
        }

        /// Whether a word is the operator GLOB with a pattern that is computed: such a pattern may be too long.
        func isPattern(at index: Int) -> Bool { isKeyword("glob", at: index) && kind(at: index + 1) != .string }

        /// Whether a word is the operator or function `word`, and not a column.
        func isKeyword(_ word: String, at index: Int) -> Bool {
            let isWord = tokens[index].kind == .identifier || tokens[index].kind == .quotedIdentifier
            guard isWord, name(at: index) == word, index == 0 || tokens[index - 1].kind != .dot else { return false }
            return tokens[index].kind == .identifier || isCall(at: index)
        }

        /// The columns that a function of dates gets as times. `nil` if one of its arguments may mean the present or depend on the
        /// time zone. Numbers, arithmetic and texts of another time do not. Nobody knows what a text says that is put together, or
        /// a modifier that is a column.
        func columnsOfFixedTime(at function: Int) -> Set<String>? {
            let times = ["strftime": 2...2, "timediff": 1...2][name(at: function)] ?? 1...1
            var columns: Set<String> = []
            var depth = 0
            var arguments = 0
            for index in (function + 1)..<tokens.count {
                switch tokens[index].kind {
                case .leftParen: depth += 1
                case .rightParen:
                    depth -= 1
                    if depth == 0 { return arguments >= times.lowerBound ? columns : nil }
                case .comma:
                    if depth == 1 { arguments += 1 }
                case .integer, .float, .dot: break
                case .operator:
                    guard ["+", "-", "*", "/", "%"].contains(text(at: index)) else { return nil }
                case .string:
                    if ConnectionTerms.presentWords.contains(name(at: index)) { return nil }
                case .identifier, .quotedIdentifier:
                    if isCall(at: index) { return nil }
                    if source.columnIndex(name(at: index)) != nil {
                        if max(arguments, 1) > times.upperBound { return nil }
                        columns.insert(name(at: index))
                    } else if ConnectionTerms.presentWords.contains(name(at: index)) {
                        return nil
                    }
                default: return nil
                }
                if depth >= 1, arguments == 0, tokens[index].kind != .leftParen { arguments = 1 }
            }
            return nil
        }
    }
}
