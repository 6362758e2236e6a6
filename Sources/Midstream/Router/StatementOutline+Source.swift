internal import SQLText

extension StatementOutline {
    /// The table that a name of three parts means, as SQLite looks for it: by alias or name, from the inside out.
    func source(of column: QualifiedReference) -> TableReference? {
        var scope: Int? = column.scope
        while let current = scope, scopes.indices.contains(current) {
            // The target of a write is in the outermost scope, and its FROM beside it.
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
