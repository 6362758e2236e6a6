/// Finds the parts of a CREATE TABLE.
struct CreateTableParser {
    struct Parts {
        var nameRange: Range<Int>
        var columns: [CreateTable.Column] = []
        var constraints: [CreateTable.Constraint] = []
        var isTemporary = false
        var options: Set<String> = []
    }

    let bytes: [UInt8]
    let tokens: [Token]
    private var position = 0

    init(_ text: String) {
        bytes = Array(text.utf8)
        var tokens = SQLTokenizer(text).filter { !$0.isTrivia }
        while tokens.last?.kind == .semicolon { tokens.removeLast() }
        self.tokens = tokens
    }

    func name(_ range: Range<Int>) -> String {
        SQLIdentifier.unquoted(String(decoding: bytes[range], as: UTF8.self))
    }

    mutating func parse() -> Parts? {
        guard take("create") else { return nil }
        let isTemporary = take("temp") || take("temporary")
        guard take("table") else { return nil }
        if take("if") { guard take("not"), take("exists") else { return nil } }
        guard var nameRange = takeName() else { return nil }
        if kind == .dot {
            position += 1
            guard let second = takeName() else { return nil }
            nameRange = second
        }
        guard kind == .leftParen else { return nil }
        position += 1
        var parts = Parts(nameRange: nameRange, isTemporary: isTemporary)
        while true {
            if !parts.columns.isEmpty, isTableConstraint {
                guard let constraint = takeConstraint(isOfTable: true) else { return nil }
                parts.constraints.append(constraint)
            } else {
                guard parts.constraints.isEmpty, let column = takeColumn() else { return nil }
                parts.columns.append(column)
            }
            switch kind {
            case .comma: position += 1
            case .rightParen:
                position += 1
                while let kind {
                    guard kind == .identifier || kind == .comma else { return nil }
                    if kind == .identifier { parts.options.insert(word) }
                    position += 1
                }
                return parts
            // The commas between table constraints may be left out.
            case .identifier where isTableConstraint: break
            default: return nil
            }
        }
    }

    // MARK: Tokens

    private var kind: TokenKind? { position < tokens.count ? tokens[position].kind : nil }

    /// The word at the position in lower case; empty if there is none.
    private var word: String { word(at: position) }

    private func word(at index: Int) -> String {
        guard index < tokens.count, tokens[index].kind == .identifier else { return "" }
        return SQLIdentifier.lowercased(String(decoding: bytes[tokens[index].range], as: UTF8.self))
    }

    private mutating func take(_ word: String) -> Bool {
        guard self.word == word else { return false }
        position += 1
        return true
    }

    private mutating func takeName() -> Range<Int>? {
        guard let kind, [.identifier, .quotedIdentifier, .string].contains(kind) else { return nil }
        defer { position += 1 }
        return tokens[position].range
    }

    /// Passes a pair of parentheses and all between them.
    private mutating func takeParentheses() -> Bool {
        guard kind == .leftParen else { return false }
        var depth = 0
        while let kind {
            if kind == .leftParen { depth += 1 }
            if kind == .rightParen { depth -= 1 }
            position += 1
            if depth == 0 { return true }
        }
        return false
    }

    // MARK: Columns

    private static let columnConstraints: Set = [
        "constraint", "primary", "not", "null", "unique", "check", "default", "collate", "references", "as",
    ]

    private var isColumnConstraint: Bool {
        Self.columnConstraints.contains(word) || word == "generated" && word(at: position + 1) == "always"
    }

    private var isTableConstraint: Bool {
        ["constraint", "primary", "unique", "check", "foreign"].contains(word)
    }

    private mutating func takeColumn() -> CreateTable.Column? {
        guard let nameRange = takeName() else { return nil }
        while let kind, kind != .comma, kind != .rightParen, !isColumnConstraint {
            if kind == .leftParen {
                guard takeParentheses() else { return nil }
            } else {
                guard takeName() != nil else { return nil }
            }
        }
        var constraints: [CreateTable.Constraint] = []
        while isColumnConstraint {
            if takeEmptyConstraint() { continue }
            guard let constraint = takeConstraint(isOfTable: false) else { return nil }
            constraints.append(constraint)
        }
        let range = nameRange.lowerBound..<tokens[position - 1].range.upperBound
        return CreateTable.Column(
            name: name(nameRange),
            range: range,
            nameRange: nameRange,
            constraints: constraints
        )
    }

    // MARK: Constraints

    /// Passes CONSTRAINT with a name and no constraint after it, which SQLite accepts.
    private mutating func takeEmptyConstraint() -> Bool {
        let start = position
        while take("constraint") { _ = takeName() }
        if position > start, kind == .comma || kind == .rightParen { return true }
        position = start
        return false
    }

    private mutating func takeConstraint(isOfTable: Bool) -> CreateTable.Constraint? {
        let start = position
        while take("constraint") { guard takeName() != nil else { return nil } }
        let body = position
        guard let kind = takeBody(isOfTable: isOfTable) else { return nil }
        let end = tokens[position - 1].range.upperBound
        return CreateTable.Constraint(
            kind: kind,
            range: tokens[start].range.lowerBound..<end,
            body: tokens[body].range.lowerBound..<end
        )
    }

    private mutating func takeBody(isOfTable: Bool) -> CreateTable.Kind? {
        let first = word
        position += 1
        switch first {
        case "primary":
            guard take("key"), !isOfTable || takeParentheses() else { return nil }
            if !take("asc") { _ = take("desc") }
            takeConflict()
            _ = take("autoincrement")
            return .primaryKey
        case "not":
            guard take("null") else { return nil }
            takeConflict()
            return .notNull
        case "null":
            takeConflict()
            return .null
        case "unique":
            guard !isOfTable || takeParentheses() else { return nil }
            takeConflict()
            return .unique
        case "check":
            guard takeParentheses() else { return nil }
            takeConflict()
            return .check
        case "default": return takeDefault() ? .default : nil
        case "collate": return takeName() == nil ? nil : .collate
        case "foreign":
            guard take("key"), takeParentheses(), take("references") else { return nil }
            return takeReferences() ? .foreignKey : nil
        case "references": return takeReferences() ? .foreignKey : nil
        case "generated":
            guard take("always"), take("as") else { return nil }
            return takeGeneration() ? .generated : nil
        case "as": return takeGeneration() ? .generated : nil
        default: return nil
        }
    }

    private mutating func takeConflict() {
        guard word == "on", word(at: position + 1) == "conflict" else { return }
        position = min(position + 3, tokens.count)
    }

    private mutating func takeDefault() -> Bool {
        if kind == .leftParen { return takeParentheses() }
        if kind == .operator { position += 1 }
        guard kind != nil else { return false }
        position += 1
        return true
    }

    private mutating func takeGeneration() -> Bool {
        guard takeParentheses() else { return false }
        if !take("stored") { _ = take("virtual") }
        return true
    }

    /// What follows REFERENCES.
    private mutating func takeReferences() -> Bool {
        guard takeName() != nil else { return false }
        if kind == .leftParen, !takeParentheses() { return false }
        while true {
            if take("on") {
                position += 1
                // SET NULL, SET DEFAULT and NO ACTION have two words.
                _ = take("set") || take("no")
                position += 1
            } else if take("match") {
                position += 1
            } else if word == "deferrable" || word == "not" && word(at: position + 1) == "deferrable" {
                _ = take("not")
                position += 1
                if take("initially") { position += 1 }
            } else {
                return position <= tokens.count
            }
        }
    }
}
