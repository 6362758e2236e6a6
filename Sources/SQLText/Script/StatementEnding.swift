/// Distinguishes the semicolon that ends a statement from semicolons inside the statement: in a trigger's body, which
/// `; END` ends, and in the arguments of a virtual table's module, which may be any tokens.
struct StatementEnding {
    private enum Phase {
        case start, create, temporary, triggerHeader, triggerBody, triggerSemicolon, triggerEnd, virtualTable, plain
    }

    private var phase = Phase.start
    private var depth = 0

    /// Takes the next token into account. Returns whether it ends the statement.
    mutating func isEnd(_ kind: TokenKind, _ word: Keyword) -> Bool {
        switch phase {
        case .plain:
            break
        case .start:
            if word == .create {
                phase = .create
            } else if word != .explain && word != .query && word != .plan {
                phase = .plain
            }
        case .create, .temporary:
            switch word {
            case .temp where phase == .create, .temporary where phase == .create: phase = .temporary
            case .trigger: phase = .triggerHeader
            case .virtual where phase == .create: phase = .virtualTable
            default: phase = .plain
            }
        case .triggerHeader:
            if word == .begin { phase = .triggerBody }
        case .triggerBody, .triggerSemicolon, .triggerEnd:
            return isEndInTrigger(kind, word)
        case .virtualTable:
            if kind == .leftParen { depth += 1 }
            if kind == .rightParen { depth -= 1 }
            return kind == .semicolon && depth <= 0
        }
        return kind == .semicolon
    }

    private mutating func isEndInTrigger(_ kind: TokenKind, _ word: Keyword) -> Bool {
        if phase == .triggerEnd, kind == .semicolon { return true }
        if phase == .triggerSemicolon, word == .end {
            phase = .triggerEnd
        } else {
            phase = kind == .semicolon ? .triggerSemicolon : .triggerBody
        }
        return false
    }
}
