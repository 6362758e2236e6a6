internal import SQLText

extension StatementOutline {
    /// The table that `schema.table.column` means. It is looked up as SQLite does it: by alias or name, from the innermost scope
    /// outwards.
    ///
    /// In the ORDER BY of a compound, it is looked up in each of the SELECTs.
    func source(of column: QualifiedReference) -> TableReference? {
        let query = queries.first { $0.isCompound && $0.orderBy?.contains(column.schemaRange.lowerBound) ?? false }
        for case let arm? in query?.arms ?? [] where arm.scope != column.scope {
            if let reference = source(of: column, from: arm.scope), reference.scope == arm.scope { return reference }
        }
        return source(of: column, from: column.scope)
    }

    private func source(of column: QualifiedReference, from scope: Int) -> TableReference? {
        var scope: Int? = scope
        while let current = scope, scopes.indices.contains(current) {
            // The target of a write is in the outermost scope, and so are the tables of its FROM clause.
            let found = tableReferences.filter { reference in
                guard reference.scope == current, reference.context != .inOperator,
                    reference.name.schema.map({ SQLIdentifier.equal($0, column.schema) }) ?? true
                else { return false }
                return SQLIdentifier.equal(reference.alias ?? reference.name.name, column.table)
            }
            if let reference = found.first(where: { $0.context == .target }) ?? found.first { return reference }
            scope = scopes[current].parent
        }
        return nil
    }
}
