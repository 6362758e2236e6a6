extension StatementOutline {
    /// The common tables of the statement's own WITH.
    public var commonTables: [CommonTable] {
        scopes[0].commonTables
    }

    /// The names, in lower case, of the common tables at any depth.
    public var allCommonTables: Set<String> {
        Set(scopes.lazy.flatMap(\.commonTables).map { SQLIdentifier.lowercased($0.name) })
    }

    /// Whether a common table that is visible in the scope has the name, so that the name without a schema means the
    /// common table.
    ///
    /// A name with a schema and the target of a write never mean a common table.
    ///
    /// - Complexity: O(n) in the visible common tables.
    public func isHiddenByCommonTable(_ name: String, scope: Int) -> Bool {
        var current: Int? = scope
        while let index = current, scopes.indices.contains(index) {
            if scopes[index].commonTables.contains(where: { SQLIdentifier.equal($0.name, name) }) { return true }
            current = scopes[index].parent
        }
        return false
    }

    /// Whether a reference means a common table.
    public func isHiddenByCommonTable(_ reference: TableReference) -> Bool {
        reference.context != .target && reference.name.schema == nil && !reference.isTableFunction
            && isHiddenByCommonTable(reference.name.name, scope: reference.scope)
    }

    /// Whether any name, quoted name or string in the statement is in a set of names.
    ///
    /// - Complexity: O(n) in the bytes of the statement's names.
    public func mentions(_ names: SQLNameSet) -> Bool {
        tokens.contains { names.contains($0, of: bytes) }
    }

    /// Whether any name, quoted name or string in the statement is one of the given names.
    ///
    /// To look up the same names in many statements, make an `SQLNameSet` once.
    public func mentions(_ lowercasedNames: Set<String>) -> Bool {
        mentions(SQLNameSet(lowercasedNames))
    }

    /// Whether any name, quoted name or string from an offset on is one of the given names.
    ///
    /// - Complexity: O(n) in the bytes of the statement's names.
    public func mentions(_ lowercasedNames: Set<String>, from offset: Int) -> Bool {
        let names = SQLNameSet(lowercasedNames)
        return tokens.contains { $0.range.lowerBound >= offset && names.contains($0, of: bytes) }
    }

    /// Whether `min()` may be called, at any depth.
    public var hasMinimum: Bool {
        !isComplete || functionCalls.contains { $0.name == "min" }
    }

    /// Whether the statement may have a compound, at any depth: UNION, INTERSECT, EXCEPT, or VALUES that is a query.
    /// The columns of a compound have the affinity of its first query, and values that this affinity does not convert.
    public var hasCompound: Bool {
        if !isComplete || mentions(Self.compoundWords) { return true }
        var previous: TokenKind?
        for token in tokens where !token.isTrivia {
            let isOfInsert = kind == .insert && previous != .leftParen
            if !isOfInsert, Self.valuesWord.contains(token, of: bytes) { return true }
            previous = token.kind
        }
        return false
    }

    private static let compoundWords = SQLNameSet(["union", "intersect", "except"])
    private static let valuesWord = SQLNameSet(["values"])

    /// The name of the index in `INDEXED BY i`, without quotes; nil for NOT INDEXED.
    public func nameOfIndex(_ range: Range<Int>) -> String? {
        let words = tokens.filter { range.contains($0.range.lowerBound) && !$0.isTrivia }
        return words.count == 3 ? SQLIdentifier.unquoted(text(words[2].range)) : nil
    }

    /// The tables that the statement names without a schema, at any depth.
    public var tablesNamedWithoutSchema: Set<String> {
        Set(tableReferences.lazy.filter { $0.name.schema == nil && !$0.isTableFunction }.map(\.name.name))
    }

    /// Whether a name occurs twice in a range of the statement, quoted or not. Calls and qualifiers are left out.
    ///
    /// - Complexity: O(n) in the tokens of the statement.
    public func repeatsName(in range: Range<Int>) -> Bool {
        let names = columnNames(in: range)
        return Set(names).count < names.count
    }

    /// The names in a range that may be names of columns, in lower case and in the order of the text. Calls and
    /// qualifiers are left out.
    ///
    /// - Complexity: O(n) in the tokens of the statement.
    public func columnNames(in range: Range<Int>) -> [String] {
        var names: [String] = []
        for (index, token) in tokens.enumerated() where range.contains(token.range.lowerBound) {
            // After a dot, a string is a name as well.
            let isQualified = index > 0 && tokens[index - 1].kind == .dot
            let isName = token.kind == .identifier || token.kind == .quotedIdentifier
            guard isName || token.kind == .string && isQualified else { continue }
            if token.kind == .identifier, KeywordTable.shared.keyword(bytes.storage, token.range).isReserved {
                continue
            }
            if index + 1 < tokens.count, [.dot, .leftParen].contains(tokens[index + 1].kind) { continue }
            names.append(SQLIdentifier.lowercased(SQLIdentifier.unquoted(text(token.range))))
        }
        return names
    }

    /// The text of a range.
    public func text(_ range: Range<Int>) -> String {
        bytes.text(range)
    }
}
