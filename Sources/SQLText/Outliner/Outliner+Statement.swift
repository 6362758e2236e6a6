extension Outliner {
    func parseStatement() throws(Unknown) {
        if tokens.isEmpty {
            outline.kind = .empty
            return
        }
        guard take(.explain) else { return try parsePlain() }
        if word == .query {
            position += 1
            try expect(.plan)
            outline.isQueryPlan = true
        }
        defer {
            outline.explained = outline.kind
            outline.kind = .explain
        }
        try parsePlain()
    }

    /// Parses any statement except EXPLAIN.
    private func parsePlain() throws(Unknown) {
        if !isAtEnd { outline.verb = tokens[position].range }
        switch word {
        case .with, .select, .values, .insert, .replace, .update, .delete:
            try parseQueryOrWrite(in: 0)
        case .create: try parseCreate()
        case .drop: try parseDrop()
        case .alter: try parseAlter()
        case .pragma: try parsePragma()
        case .begin: try parseBegin()
        case .commit, .end, .rollback, .savepoint, .release: try parseTransactionEnd()
        case .attach: try parseAttach()
        case .detach: try parseDetach()
        case .vacuum: try parseVacuum()
        case .reindex: try parseMaintenance(.reindex)
        case .analyze: try parseMaintenance(.analyze)
        default: throw Unknown()
        }
    }

    /// Parses SELECT, VALUES, INSERT, REPLACE, UPDATE or DELETE, including its WITH.
    func parseQueryOrWrite(in scope: Int) throws(Unknown) {
        outline.with = try parseWith(in: scope)
        if !isAtEnd { outline.verb = tokens[position].range }
        switch word {
        case .select, .values:
            outline.kind = .select
            let shape = try parseCompound(in: scope)
            outline.clauses = shape.clauses
            outline.results = shape.results
        case .insert, .replace:
            outline.kind = .insert
            try parseInsert(in: scope)
        case .update:
            outline.kind = .update
            try parseUpdate(in: scope)
        case .delete:
            outline.kind = .delete
            try parseDelete(in: scope)
        default:
            throw Unknown()
        }
    }
}
