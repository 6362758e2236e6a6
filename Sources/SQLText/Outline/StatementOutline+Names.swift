extension StatementOutline {
    /// The common tables of the statement's own WITH.
    public var commonTables: [CommonTable] {
        scopes[0].commonTables
    }

    /// Whether a common table visible in the scope has the name, so that the name without a schema means it.
    ///
    /// A name with a schema and the target of a write never mean a common table.
    ///
    /// - Complexity: O(n) in the common tables visible.
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

    /// Whether any name, quoted name or string in the statement is one of these.
    ///
    /// - Complexity: O(n) in the bytes of the statement's names.
    public func mentions(_ names: SQLNameSet) -> Bool {
        tokens.contains { names.contains($0, of: bytes) }
    }

    /// Whether any name, quoted name or string in the statement is one of these.
    ///
    /// Make an `SQLNameSet` once to look up the same names in many statements.
    public func mentions(_ lowercasedNames: Set<String>) -> Bool {
        mentions(SQLNameSet(lowercasedNames))
    }

    /// The text of a range.
    public func text(_ range: Range<Int>) -> String {
        bytes.text(range)
    }
}
