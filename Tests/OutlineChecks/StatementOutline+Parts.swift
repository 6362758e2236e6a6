internal import SQLText

extension StatementOutline {
    /// Every range that an outline gives besides its own, and what it is.
    var parts: [(what: String, range: Range<Int>)] {
        var parts: [(what: String, range: Range<Int>)] = []
        func add(_ what: String, _ range: Range<Int>?) {
            if let range { parts.append((what, range)) }
        }
        add("WITH", with)
        add("verb", verb)
        add("alias of the target", targetAlias?.range)
        add("INDEXED BY", indexedBy)
        add("conflict", conflict?.range)
        add("columns", columns)
        add("query", query)
        add("arguments", arguments)
        switch source {
        case .values(let rows, let range)?:
            add("VALUES", range)
            for value in rows.joined() { add("value", value) }
        case .select(let range)?, .defaultValues(let range)?: add("source", range)
        case nil: break
        }
        for assignment in assignments {
            add("assigned columns", assignment.columnsRange)
            add("assigned value", assignment.value)
        }
        for range in upsert { add("upsert", range) }
        for clause in [clauses.set, clauses.from, clauses.where, clauses.returning, clauses.orderBy, clauses.limit] {
            add("clause", clause?.range)
            add("body of a clause", clause?.body)
        }
        for name in tableReferences.map(\.name) + [target, onTable].compactMap({ $0 }) {
            add("name", name.nameRange)
            add("schema", name.schemaRange)
            add("schema and name", name.range)
        }
        for reference in tableReferences { add("INDEXED BY", reference.indexedBy) }
        for column in qualifiedReferences {
            add("schema of a column", column.schemaRange)
            add("table of a column", column.tableRange)
            add("column", column.columnRange)
        }
        for parameter in parameters { add("parameter", parameter.range) }
        for call in functionCalls { add("function", call.nameRange) }
        for table in scopes.flatMap(\.commonTables) { add("common table", table.nameRange) }
        return parts
    }
}
