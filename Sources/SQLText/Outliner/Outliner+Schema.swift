extension Outliner {
    func parseDrop() throws(Unknown) {
        try expect(.drop)
        switch word {
        case .table: outline.kind = .dropTable
        case .index: outline.kind = .dropIndex
        case .view: outline.kind = .dropView
        case .trigger: outline.kind = .dropTrigger
        default: throw Unknown()
        }
        position += 1
        if take(.if) {
            try expect(.exists)
            outline.isConditional = true
        }
        outline.target = try parseObjectName()
    }

    func parseAlter() throws(Unknown) {
        try expect(.alter)
        try expect(.table)
        outline.kind = .alterTable
        outline.target = try parseObjectName()
        let start = position
        guard word == .rename || word == .add || word == .drop || word == .alter else { throw Unknown() }
        try skipToEnd()
        outline.arguments = range(from: start)
    }

    func parsePragma() throws(Unknown) {
        try expect(.pragma)
        outline.kind = .pragma
        outline.target = try parseObjectName()
        if isAtEnd { return }
        let isInParentheses = take(.leftParen)
        if !isInParentheses {
            guard isOperator("=", at: position) else { throw Unknown() }
            position += 1
        }
        let start = position
        if isOperator("+", at: position) || isOperator("-", at: position) { position += 1 }
        switch kind {
        // Keywords such as ON and DELETE are values here.
        case .identifier, .quotedIdentifier, .string, .integer, .float: position += 1
        default: throw Unknown()
        }
        outline.arguments = range(from: start)
        if isInParentheses { try expect(.rightParen) }
    }

    /// Parses REINDEX and ANALYZE.
    func parseMaintenance(_ kind: StatementKind) throws(Unknown) {
        position += 1
        outline.kind = kind
        if !isAtEnd { outline.target = try parseObjectName() }
    }

    func parseVacuum() throws(Unknown) {
        try expect(.vacuum)
        outline.kind = .vacuum
        let start = position
        if isName(at: position) { outline.target = try parseSingleName() }
        if take(.into) { try scan(in: 0) }
        outline.arguments = range(from: start)
    }

    /// ATTACH [DATABASE] expression AS schema [KEY expression].
    func parseAttach() throws(Unknown) {
        try expect(.attach)
        outline.kind = .attach
        _ = take(.database)
        let start = position
        try scan(in: 0)
        try expect(.as)
        outline.target = isName(at: position) ? try parseSingleName() : nil
        if !isAtEnd { try scan(in: 0) }
        outline.arguments = range(from: start)
    }

    /// DETACH [DATABASE] schema.
    func parseDetach() throws(Unknown) {
        try expect(.detach)
        outline.kind = .detach
        _ = take(.database)
        let start = position
        if isName(at: position), position + 1 == tokens.count {
            outline.target = try parseSingleName()
        } else {
            try scan(in: 0)
        }
        outline.arguments = range(from: start)
    }

    func parseSingleName() throws(Unknown) -> ObjectName {
        let name = try parseName()
        return ObjectName(schema: nil, name: name.name, schemaRange: nil, nameRange: name.range)
    }

    /// Passes the rest of the statement, in which parentheses must match.
    private func skipToEnd() throws(Unknown) {
        while !isAtEnd {
            switch kind {
            case .leftParen: try skipBalanced()
            case .rightParen, .semicolon, .illegal: throw Unknown()
            default: position += 1
            }
        }
    }
}
