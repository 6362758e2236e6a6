extension Outliner {
    /// Parses what follows FROM: tables, functions, queries and joins of them.
    func parseFrom(in scope: Int) throws(Unknown) -> Range<Int> {
        let start = position
        repeat { try parseJoined(in: scope) } while try takeJoin()
        return try someRange(from: start)
    }

    /// Takes a comma, or an operator such as `NATURAL LEFT OUTER JOIN`. SQLite's grammar has a join word first, then up
    /// to two names, which SQLite checks later.
    private func takeJoin() throws(Unknown) -> Bool {
        if take(.comma) || take(.join) { return true }
        guard word.isJoinWord else { return false }
        position += 1
        for _ in 0..<2 where isName(at: position) { position += 1 }
        try expect(.join)
        return true
    }

    private func parseJoined(in scope: Int) throws(Unknown) {
        if kind == .leftParen {
            if startsQuery(at: position + 1) {
                try parseSubquery(in: scope)
            } else {
                try parseJoinInParentheses(in: scope)
            }
            _ = try parseFromAlias()
        } else {
            try parseTable(in: scope)
        }
        // SQLite takes an ON here for the join's, even if the ON of an upsert could follow:
        // https://sqlite.org/lang_upsert.html#parsing_ambiguity
        if take(.on) {
            try scan(in: scope, .one)
        } else if take(.using) {
            _ = try parseNameList()
        }
    }

    private func parseJoinInParentheses(in scope: Int) throws(Unknown) {
        guard depth < Self.depthLimit else { throw Unknown() }
        depth += 1
        try expect(.leftParen)
        _ = try parseFrom(in: scope)
        try expect(.rightParen)
        depth -= 1
    }

    private func parseTable(in scope: Int) throws(Unknown) {
        let name = try parseObjectName()
        let isFunction = kind == .leftParen
        if isFunction {
            addCall(of: name, in: scope)
            position += 1
            if kind != .rightParen { try scan(in: scope) }
            try expect(.rightParen)
        }
        let alias = try parseFromAlias()
        let indexedBy = try parseIndexedBy()
        tableReferences.append(
            TableReference(
                name: name,
                alias: alias,
                indexedBy: indexedBy,
                scope: scope,
                context: .from,
                isTableFunction: isFunction
            )
        )
    }

    /// `AS x` or `x`.
    private func parseFromAlias() throws(Unknown) -> String? {
        if let alias = try parseAlias() { return alias.name }
        guard isBareAlias(at: position) else { return nil }
        return try parseName().name
    }
}
