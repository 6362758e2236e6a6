extension Outliner {
    /// Whether a query starts at the token. None of its first words can be a name there.
    func startsQuery(at index: Int) -> Bool {
        let word = word(at: index)
        return word == .select || word == .values || word == .with
    }

    /// Parses a query in parentheses.
    func parseSubquery(in scope: Int) throws(Unknown) {
        guard depth < Self.depthLimit else { throw Unknown() }
        depth += 1
        try expect(.leftParen)
        _ = try parseQuery(in: scope)
        try expect(.rightParen)
        depth -= 1
    }

    /// Parses a query. If it has a WITH, the query gets a scope of its own.
    func parseQuery(in scope: Int) throws(Unknown) -> QueryShape {
        guard word == .with else { return try parseCompound(in: scope) }
        let withScope = newScope(in: scope)
        _ = try parseWith(in: withScope)
        var shape = try parseCompound(in: withScope)
        shape.isPlainValues = false
        return shape
    }

    /// Parses `WITH a AS (…), …` into the common tables of the scope; nil if there is no WITH.
    func parseWith(in scope: Int) throws(Unknown) -> Range<Int>? {
        let start = position
        guard take(.with) else { return nil }
        _ = take(.recursive)
        repeat {
            let name = try parseName()
            scopes[scope].commonTables.append(CommonTable(name: name.name, nameRange: name.range))
            if kind == .leftParen { _ = try parseNameList() }
            try expect(.as)
            if take(.not) {
                try expect(.materialized)
            } else {
                _ = take(.materialized)
            }
            guard startsQuery(at: position + 1) else { throw Unknown() }
            try parseSubquery(in: scope)
        } while take(.comma)
        return range(from: start)
    }

    /// Parses SELECTs and VALUES with UNION, INTERSECT or EXCEPT between them, then ORDER BY and LIMIT.
    ///
    /// The terms of ORDER BY get the scope of the last arm.
    func parseCompound(in scope: Int, keepsRows: Bool = false) throws(Unknown) -> QueryShape {
        var shape = QueryShape()
        var armScope = scope
        var arms: [ResultList?] = []
        while true {
            shape.armCount += 1
            armScope = newScope(in: scope)
            shape.clauses = ClauseList()
            if take(.values) {
                shape.isPlainValues = shape.armCount == 1
                shape.rows = try parseRows(in: armScope, keeps: keepsRows)
                arms.append(nil)
            } else {
                try expect(.select)
                let (results, clauses) = try parseCore(in: armScope)
                shape.clauses = clauses
                arms.append(results)
            }
            if take(.union) {
                _ = take(.all)
            } else if !take(.intersect), !take(.except) {
                break
            }
        }
        shape.results = arms[0]
        if shape.armCount > 1 {
            shape.isPlainValues = false
            shape.clauses = ClauseList()
        }
        shape.clauses.orderBy = try parseOrderBy(in: armScope)
        shape.clauses.limit = try parseClause(.limit, in: armScope)
        if shape.clauses.orderBy != nil || shape.clauses.limit != nil { shape.isPlainValues = false }
        queries.append(Query(arms: arms, orderBy: shape.clauses.orderBy?.body))
        return shape
    }

    /// `(1, 2), (3, 4)`.
    private func parseRows(in scope: Int, keeps: Bool) throws(Unknown) -> [[Range<Int>]] {
        var rows: [[Range<Int>]] = []
        repeat {
            var row: [Range<Int>] = []
            try expect(.leftParen)
            repeat {
                let value = try scan(in: scope, .one)
                if keeps { row.append(value) }
            } while take(.comma)
            try expect(.rightParen)
            if keeps { rows.append(row) }
        } while take(.comma)
        return rows
    }

    /// Parses what follows SELECT, up to HAVING and WINDOW.
    private func parseCore(in scope: Int) throws(Unknown) -> (ResultList, ClauseList) {
        var clauses = ClauseList()
        if !take(.distinct) { _ = take(.all) }
        let list = try scan(in: scope, .aliases)
        let fromStart = position
        if take(.from) {
            let body = try parseFrom(in: scope)
            clauses.from = Clause(range: try someRange(from: fromStart), body: body)
        }
        clauses.where = try parseClause(.where, in: scope)
        if take(.group) {
            try expect(.by)
            try scan(in: scope)
        }
        if take(.having) { try scan(in: scope) }
        if isWindowClause(at: position) { try parseWindows(in: scope) }
        return (ResultList(range: list, scope: scope, from: clauses.from?.body), clauses)
    }

    /// `WINDOW w AS (…), …`.
    private func parseWindows(in scope: Int) throws(Unknown) {
        try expect(.window)
        repeat {
            _ = try parseName()
            try expect(.as)
            guard kind == .leftParen else { throw Unknown() }
            try scan(in: scope, .one)
        } while take(.comma)
    }

    /// Parses a keyword and the expressions after it; nil if the keyword is not there.
    func parseClause(
        _ keyword: Keyword,
        in scope: Int,
        _ options: ScanOptions = []
    ) throws(Unknown) -> Clause? {
        let start = position
        guard take(keyword) else { return nil }
        let body = try scan(in: scope, options)
        return Clause(range: try someRange(from: start), body: body)
    }

    func parseOrderBy(in scope: Int) throws(Unknown) -> Clause? {
        let start = position
        guard take(.order) else { return nil }
        try expect(.by)
        let body = try scan(in: scope)
        return Clause(range: try someRange(from: start), body: body)
    }
}
