extension Outliner {
    /// Parses INSERT or REPLACE, after WITH.
    func parseInsert(in scope: Int) throws(Unknown) {
        outline.verb = tokens[position].range
        if take(.replace) {
            outline.conflict = ConflictWord(word: "replace", range: tokens[position - 1].range)
        } else {
            try expect(.insert)
            try parseConflict()
        }
        try expect(.into)
        try parseTarget(in: scope, hasIndex: false)
        let columnsStart = position
        if kind == .leftParen {
            outline.columnNames = try parseNameList()
            outline.columns = range(from: columnsStart)
        }
        try parseSource(in: scope)
        try parseUpserts(in: scope)
        outline.clauses.returning = try parseClause(.returning, in: scope, .aliases)
    }

    private func parseSource(in scope: Int) throws(Unknown) {
        let start = position
        if take(.default) {
            try expect(.values)
            outline.source = .defaultValues(try someRange(from: start))
            return
        }
        let shape = word == .values ? try parseCompound(in: scope, keepsRows: true) : try parseQuery(in: scope)
        let range = try someRange(from: start)
        outline.source = shape.isPlainValues ? .values(rows: shape.rows, range: range) : .select(range)
    }

    private func parseUpserts(in scope: Int) throws(Unknown) {
        while word == .on {
            let start = position
            position += 1
            try expect(.conflict)
            if kind == .leftParen {
                position += 1
                try scan(in: scope)
                try expect(.rightParen)
                _ = try parseClause(.where, in: scope, .untilDo)
            }
            try expect(.do)
            if !take(.nothing) {
                try expect(.update)
                try expect(.set)
                _ = try parseAssignments(in: scope)
                _ = try parseClause(.where, in: scope)
            }
            outline.upsert.append(try someRange(from: start))
        }
    }

    /// Parses UPDATE, after WITH.
    func parseUpdate(in scope: Int) throws(Unknown) {
        outline.verb = tokens[position].range
        try expect(.update)
        try parseConflict()
        try parseTarget(in: scope, hasIndex: true)
        let setStart = position
        try expect(.set)
        let bodyStart = position
        outline.assignments = try parseAssignments(in: scope)
        outline.clauses.set = Clause(range: try someRange(from: setStart), body: try someRange(from: bodyStart))
        let fromStart = position
        if take(.from) {
            let body = try parseFrom(in: scope)
            outline.clauses.from = Clause(range: try someRange(from: fromStart), body: body)
        }
        try parseEnding(in: scope)
    }

    /// Parses DELETE, after WITH.
    func parseDelete(in scope: Int) throws(Unknown) {
        outline.verb = tokens[position].range
        try expect(.delete)
        try expect(.from)
        try parseTarget(in: scope, hasIndex: true)
        try parseEnding(in: scope)
    }

    /// Parses WHERE, RETURNING, ORDER BY and LIMIT. SQLite's grammar has RETURNING before ORDER BY.
    private func parseEnding(in scope: Int) throws(Unknown) {
        outline.clauses.where = try parseClause(.where, in: scope)
        outline.clauses.returning = try parseClause(.returning, in: scope, .aliases)
        outline.clauses.orderBy = try parseOrderBy(in: scope)
        outline.clauses.limit = try parseClause(.limit, in: scope)
    }

    private func parseConflict() throws(Unknown) {
        guard take(.or) else { return }
        switch word {
        case .rollback, .abort, .fail, .ignore, .replace: position += 1
        default: throw Unknown()
        }
        let range = tokens[position - 1].range
        outline.conflict = ConflictWord(word: SQLIdentifier.lowercased(bytes.text(range)), range: range)
    }

    private func parseTarget(in scope: Int, hasIndex: Bool) throws(Unknown) {
        let name = try parseObjectName()
        outline.target = name
        outline.targetAlias = try parseAlias()
        if hasIndex { outline.indexedBy = try parseIndexedBy() }
        tableReferences.append(
            TableReference(
                name: name,
                alias: outline.targetAlias?.name,
                indexedBy: outline.indexedBy,
                scope: scope,
                context: .target,
                isTableFunction: false
            )
        )
    }

    /// `a = 1, (b, c) = (2, 3)`.
    private func parseAssignments(in scope: Int) throws(Unknown) -> [Assignment] {
        var assignments: [Assignment] = []
        repeat {
            let start = position
            let columns = kind == .leftParen ? try parseNameList() : [try parseName().name]
            let columnsRange = try someRange(from: start)
            guard isOperator("=", at: position) else { throw Unknown() }
            position += 1
            let value = try scan(in: scope, .one)
            assignments.append(Assignment(columns: columns, columnsRange: columnsRange, value: value))
        } while take(.comma)
        return assignments
    }
}
