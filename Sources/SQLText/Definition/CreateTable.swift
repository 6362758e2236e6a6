/// The columns and constraints of a CREATE TABLE, by byte range: the parts of a definition that SQLite itself does not
/// tell.
///
///     let table = CreateTable("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL DEFAULT '', CHECK (a > 0))")
///     table?.columns.map(\.name)              // ["a", "b"]
///     table?.columns[1].constraints.map(\.kind)   // [.notNull, .default]
///     table?.constraints.map(\.kind)          // [.check]
///
/// All offsets are into the UTF-8 of the text. Source: <https://www.sqlite.org/lang_createtable.html>.
public struct CreateTable: Sendable {
    /// The kinds of constraints.
    public enum Kind: Hashable, Sendable {
        /// PRIMARY KEY.
        case primaryKey
        /// NOT NULL.
        case notNull
        /// A NULL constraint, which has no meaning.
        case null
        /// UNIQUE.
        case unique
        /// CHECK.
        case check
        /// DEFAULT.
        case `default`
        /// COLLATE.
        case collate
        /// REFERENCES, or FOREIGN KEY.
        case foreignKey
        /// AS, or GENERATED ALWAYS AS.
        case generated
    }

    /// A constraint of a column or of the table.
    public struct Constraint: Hashable, Sendable {
        /// The kind of the constraint.
        public let kind: Kind
        /// Where the constraint is, including CONSTRAINT and its name.
        public let range: Range<Int>
        /// Where the constraint is, without CONSTRAINT and its name.
        public let body: Range<Int>
    }

    /// The definition of a column.
    public struct Column: Hashable, Sendable {
        /// The name without quotes.
        public let name: String
        /// Where the whole definition is.
        public let range: Range<Int>
        /// Where the name is.
        public let nameRange: Range<Int>
        /// The constraints, in their order.
        public let constraints: [Constraint]
    }

    /// The table's name as written.
    public let nameRange: Range<Int>
    /// The table's name without quotes.
    public let name: String
    /// The columns, in their order.
    public let columns: [Column]
    /// The constraints that belong to no column, in their order.
    public let constraints: [Constraint]
    /// Whether the table is TEMP.
    public let isTemporary: Bool
    /// Whether the table is WITHOUT ROWID.
    public let isWithoutRowID: Bool
    /// Whether the table is STRICT.
    public let isStrict: Bool
    /// The text.
    public let text: String

    private let tokens: [Token]
    private let bytes: [UInt8]

    /// Reads a text of one statement; `nil` if the statement is no CREATE TABLE with columns, or cannot be understood.
    ///
    /// - Complexity: O(n) in the bytes of the text.
    public init?(_ text: String) {
        var parser = CreateTableParser(text)
        guard let parsed = parser.parse() else { return nil }
        self.text = text
        tokens = parser.tokens
        bytes = parser.bytes
        nameRange = parsed.nameRange
        name = parser.name(parsed.nameRange)
        columns = parsed.columns
        constraints = parsed.constraints
        isTemporary = parsed.isTemporary
        isWithoutRowID = parsed.options.contains("rowid")
        isStrict = parsed.options.contains("strict")
    }

    /// The words of a range, separated by one space, without comments, and without the quotes that names do not need.
    /// Two ranges with equal words mean the same: a name in double quotes, which may be a string, keeps its case.
    public func words(_ range: Range<Int>) -> String {
        Self.words(of: range, in: tokens, bytes)
    }

    /// The words of a range in which all words in quotes are names. Case does not count for names, so they are in lower
    /// case.
    public func names(_ range: Range<Int>) -> String {
        tokens.filter { range.contains($0.range.lowerBound) }.map { token in
            let word = String(decoding: bytes[token.range], as: UTF8.self)
            return token.kind == .string ? word : SQLIdentifier.lowercased(SQLIdentifier.unquoted(word))
        }.joined(separator: " ")
    }

    /// The bare and quoted words of a range, without quotes, in lower case.
    public func identifiers(_ range: Range<Int>) -> Set<String> {
        let found = tokens.filter { token in
            range.contains(token.range.lowerBound) && [.identifier, .quotedIdentifier, .string].contains(token.kind)
        }
        return Set(found.map { SQLIdentifier.lowercased(name($0)) })
    }

    private func name(_ token: Token) -> String {
        SQLIdentifier.unquoted(String(decoding: bytes[token.range], as: UTF8.self))
    }

    /// The SQL of a range: its tokens separated by one space, without comments, bare words in lower case.
    public func sql(_ range: Range<Int>) -> String {
        tokens.filter { range.contains($0.range.lowerBound) }.map { token in
            let word = String(decoding: bytes[token.range], as: UTF8.self)
            return token.kind == .identifier ? SQLIdentifier.lowercased(word) : word
        }.joined(separator: " ")
    }

    /// The first pair of parentheses of a constraint, such as that of a CHECK, with all between them.
    public func parentheses(of constraint: Constraint) -> Range<Int>? {
        let body = tokens.filter { constraint.body.contains($0.range.lowerBound) }
        guard let start = body.first(where: { $0.kind == .leftParen }) else { return nil }
        var depth = 0
        for token in body where token.range.lowerBound >= start.range.lowerBound {
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 { return start.range.lowerBound..<token.range.upperBound }
        }
        return nil
    }

    /// The words of any text of SQL, separated by one space: see ``words(_:)-(Range<Int>)``.
    public static func words(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return words(of: bytes.indices, in: SQLTokenizer(text).filter { !$0.isTrivia }, bytes)
    }

    private static func words(of range: Range<Int>, in tokens: [Token], _ bytes: [UInt8]) -> String {
        tokens.filter { range.contains($0.range.lowerBound) }.map { token in
            let word = String(decoding: bytes[token.range], as: UTF8.self)
            switch token.kind {
            case .identifier: return SQLIdentifier.lowercased(word)
            case .quotedIdentifier:
                let name = SQLIdentifier.unquoted(word)
                let lowered = SQLIdentifier.lowercased(name)
                let mayBeString = word.hasPrefix("\"")
                if isBareName(lowered), !mayBeString || name == lowered { return lowered }
                return SQLIdentifier.quoted(mayBeString ? name : lowered)
            default: return word
            }
        }.joined(separator: " ")
    }

    /// Bare words that are values, and no names.
    private static let values: Set = ["null", "true", "false", "current_time", "current_date", "current_timestamp"]

    /// Whether a name in lower case means the same without quotes.
    private static func isBareName(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        return bytes.first.map { $0 == UInt8(ascii: "_") || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
            == true
            && SQLTokenizer(name).filter { !$0.isTrivia }.map(\.range) == [bytes.indices]
            && KeywordTable.shared.keyword(bytes, bytes.indices) == .none && !values.contains(name)
    }

    /// The text without the constraints of some kinds, of columns and of the table.
    public func removing(_ kinds: Set<Kind>) -> String {
        var edits = SQLEdits()
        for constraint in columns.flatMap(\.constraints) where kinds.contains(constraint.kind) {
            edits.remove(constraint.range)
        }
        for (index, constraint) in constraints.enumerated() where kinds.contains(constraint.kind) {
            // The constraint is removed with the comma before it, unless a constraint that stays follows it without a
            // comma of its own.
            let others = constraints[(index + 1)...].prefix { !isBehindComma($0) }
            let lends = others.contains { !kinds.contains($0.kind) }
            let start = token(before: constraint).map {
                $0.kind == .comma && !lends ? $0.range.lowerBound : $0.range.upperBound
            }
            edits.remove((start ?? constraint.range.lowerBound)..<constraint.range.upperBound)
        }
        return (try? edits.apply(to: text)) ?? text
    }

    private func token(before constraint: Constraint) -> Token? {
        tokens.last { $0.range.upperBound <= constraint.range.lowerBound }
    }

    private func isBehindComma(_ constraint: Constraint) -> Bool { token(before: constraint)?.kind == .comma }

    /// The text with more columns after the last one, and more constraints after all others.
    public func adding(columns definitions: [String], constraints others: [String] = []) -> String {
        guard let last = columns.last else { return text }
        var edits = SQLEdits()
        let end = constraints.last?.range.upperBound ?? last.range.upperBound
        let (more, behind) = (definitions.map { ", " + $0 }.joined(), others.map { ", " + $0 }.joined())
        edits.insert(end == last.range.upperBound ? more + behind : more, at: last.range.upperBound)
        if end != last.range.upperBound { edits.insert(behind, at: end) }
        return (try? edits.apply(to: text)) ?? text
    }

    /// The text with another name for the table.
    public func named(_ name: String) -> String {
        var edits = SQLEdits()
        edits.replace(nameRange, with: SQLIdentifier.quoted(name))
        return (try? edits.apply(to: text)) ?? text
    }

    /// The text of a range.
    public func text(_ range: Range<Int>) -> String {
        String(decoding: bytes[range], as: UTF8.self)
    }
}
