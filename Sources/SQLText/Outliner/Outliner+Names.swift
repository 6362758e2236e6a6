extension Outliner {
    /// Whether the token can be a name (`nm` in SQLite's grammar).
    func isName(at index: Int) -> Bool {
        switch kind(at: index) {
        case .identifier: !words[index].isReserved
        case .quotedIdentifier, .string: true
        default: false
        }
    }

    /// Whether the token can be an alias without AS (`ids` in SQLite's grammar), and begins no WINDOW clause.
    func isBareAlias(at index: Int) -> Bool {
        guard isName(at: index) else { return false }
        let word = words[index]
        return !word.isJoinWord && word != .indexed && !isWindowClause(at: index)
    }

    /// Whether the token begins a WINDOW clause. WINDOW is a keyword only before a name and AS; SQLite's tokenizer
    /// looks as far ahead.
    func isWindowClause(at index: Int) -> Bool {
        word(at: index) == .window && isName(at: index + 1) && word(at: index + 2) == .as
    }

    func name(at index: Int) -> String {
        SQLIdentifier.unquoted(bytes.storage[tokens[index].range])
    }

    func parseName() throws(Unknown) -> (name: String, range: Range<Int>) {
        guard isName(at: position) else { throw Unknown() }
        position += 1
        return (name(at: position - 1), tokens[position - 1].range)
    }

    /// `T` or `main.T`.
    func parseObjectName() throws(Unknown) -> ObjectName {
        let first = try parseName()
        guard take(.dot) else {
            return ObjectName(schema: nil, name: first.name, schemaRange: nil, nameRange: first.range)
        }
        let second = try parseName()
        return ObjectName(
            schema: first.name,
            name: second.name,
            schemaRange: first.range,
            nameRange: second.range
        )
    }

    /// `AS x`.
    func parseAlias() throws(Unknown) -> TableAlias? {
        guard take(.as) else { return nil }
        let alias = try parseName()
        return TableAlias(name: alias.name, range: alias.range)
    }

    /// `INDEXED BY i` or `NOT INDEXED`.
    func parseIndexedBy() throws(Unknown) -> Range<Int>? {
        let start = position
        if take(.indexed) {
            try expect(.by)
            _ = try parseName()
        } else if word == .not, word(at: position + 1) == .indexed {
            position += 2
        }
        return range(from: start)
    }

    /// `(a, b)`.
    func parseNameList() throws(Unknown) -> [String] {
        var names: [String] = []
        try expect(.leftParen)
        repeat { names.append(try parseName().name) } while take(.comma)
        try expect(.rightParen)
        return names
    }
}
