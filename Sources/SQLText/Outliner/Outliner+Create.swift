extension Outliner {
    func parseCreate() throws(Unknown) {
        try expect(.create)
        if take(.unique) {
            outline.kind = .createIndex(unique: true)
            try expect(.index)
            return try parseCreateIndex()
        }
        if take(.index) {
            outline.kind = .createIndex(unique: false)
            return try parseCreateIndex()
        }
        if take(.virtual) {
            outline.kind = .createVirtualTable
            try expect(.table)
            return try parseCreateVirtualTable()
        }
        outline.isTemporary = take(.temp) || take(.temporary)
        if take(.table) {
            outline.kind = .createTable
            try parseCreateTable()
        } else if take(.view) {
            outline.kind = .createView
            try parseCreateView()
        } else if take(.trigger) {
            outline.kind = .createTrigger
            try parseCreateTrigger()
        } else {
            throw Unknown()
        }
    }

    /// The name of the new object, with IF NOT EXISTS before it or without.
    func parseNewName() throws(Unknown) {
        if take(.if) {
            try expect(.not)
            try expect(.exists)
            outline.isConditional = true
        }
        outline.target = try parseObjectName()
    }

    private func parseCreateIndex() throws(Unknown) {
        try parseNewName()
        try expect(.on)
        let table = try parseName()
        outline.onTable = ObjectName(schema: nil, name: table.name, schemaRange: nil, nameRange: table.range)
        let start = position
        try expect(.leftParen)
        try scan(in: 0)
        try expect(.rightParen)
        outline.columns = range(from: start)
        outline.clauses.where = try parseClause(.where, in: 0)
    }

    private func parseCreateVirtualTable() throws(Unknown) {
        try parseNewName()
        let start = position
        try expect(.using)
        _ = try parseName()
        if kind == .leftParen { try skipBalanced() }
        outline.arguments = range(from: start)
    }

    private func parseCreateTable() throws(Unknown) {
        try parseNewName()
        let start = position
        if take(.as) {
            let queryStart = position
            outline.results = try parseQuery(in: 0).results
            outline.query = range(from: queryStart)
        } else {
            guard kind == .leftParen else { throw Unknown() }
            try skipBalanced()
            // WITHOUT ROWID, STRICT, and any options that later versions of SQLite may have.
            while isName(at: position) || kind == .comma { position += 1 }
        }
        outline.arguments = range(from: start)
    }

    private func parseCreateView() throws(Unknown) {
        try parseNewName()
        let columnsStart = position
        if kind == .leftParen {
            outline.columnNames = try parseNameList()
            outline.columns = range(from: columnsStart)
        }
        try expect(.as)
        let queryStart = position
        outline.results = try parseQuery(in: 0).results
        outline.query = range(from: queryStart)
    }

    /// Passes a pair of parentheses and all between them, and notes the function calls in them, such as those of CHECK
    /// and DEFAULT.
    func skipBalanced() throws(Unknown) {
        var open = 0
        repeat {
            switch kind {
            case .leftParen:
                open += 1
            case .rightParen:
                open -= 1
            case .identifier, .quotedIdentifier:
                if kind(at: position + 1) == .leftParen, isName(at: position) {
                    let name = SQLIdentifier.lowercased(name(at: position))
                    functionCalls.append(FunctionCall(name: name, nameRange: tokens[position].range, scope: 0))
                }
            case .illegal, .space:
                throw Unknown()
            default:
                break
            }
            position += 1
        } while open > 0
    }
}
