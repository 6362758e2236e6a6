extension Outliner {
    /// Scans an expression or a list of expressions, up to a word that no expression can have there, an unmatched
    /// closing parenthesis or a semicolon.
    ///
    /// The scan counts parentheses and does not recurse into them, unless a query is in them. Where an operand must
    /// follow, a keyword that can be a name is a name, as in the fallback of SQLite's parser.
    @discardableResult
    func scan(in scope: Int, _ options: ScanOptions = []) throws(Unknown) -> Range<Int> {
        let start = position
        var state = ScanState()
        scanning: while !isAtEnd {
            switch tokens[position].kind {
            case .leftParen:
                if startsQuery(at: position + 1) {
                    try parseSubquery(in: scope)
                    state.wantsOperand = false
                } else {
                    let isOperand = state.wantsOperand && !(position > start && word(at: position - 1) == .in)
                    state.parentheses.append(isOperand ? .operand : .list)
                    state.wantsOperand = true
                    position += 1
                }
            case .rightParen:
                guard let closed = state.parentheses.popLast() else { break scanning }
                state.wantsOperand = false
                position += 1
                if closed == .row, word == .in || word == .not { outline.hasRowMembership = true }
                // Parentheses around a row value change nothing.
                if closed == .row, state.parentheses.last == .operand { state.parentheses[state.depth - 1] = .row }
            case .comma:
                if state.depth == 0, options.contains(.one) { break scanning }
                if state.parentheses.last == .operand { state.parentheses[state.depth - 1] = .row }
                state.wantsOperand = true
                position += 1
            case .operator:
                // Either the operand `*` of count(*) and SELECT *, or an operator.
                state.wantsOperand = !(state.wantsOperand && isOperator("*", at: position))
                position += 1
            case .integer, .float, .blob, .variable:
                state.wantsOperand = false
                position += 1
            case .string, .quotedIdentifier:
                try scanName(in: scope)
                state.wantsOperand = false
            case .identifier:
                guard try scanWord(in: scope, options, &state) else { break scanning }
            case .semicolon:
                break scanning
            case .dot, .illegal, .space, .comment:
                throw Unknown()
            }
        }
        guard state.depth == 0 else { throw Unknown() }
        return try someRange(from: start)
    }

    /// `a`, `t.a`, `main.t.a`, `t.*` or the name of a function.
    func scanName(in scope: Int) throws(Unknown) {
        let first = position
        position += 1
        if kind == .leftParen, kind(at: first) != .string {
            functionCalls.append(
                FunctionCall(
                    name: SQLIdentifier.lowercased(name(at: first)),
                    nameRange: tokens[first].range,
                    scope: scope
                )
            )
            return
        }
        while take(.dot) {
            guard isName(at: position) || isOperator("*", at: position) else { throw Unknown() }
            position += 1
        }
        // The tokens are: s . t . c
        switch position - first {
        case 1, 3: return
        case 5: break
        default: throw Unknown()
        }
        let last = position - 1
        qualifiedReferences.append(
            QualifiedReference(
                schema: name(at: first),
                table: name(at: first + 2),
                column: name(at: last),
                schemaRange: tokens[first].range,
                tableRange: tokens[first + 2].range,
                columnRange: tokens[last].range,
                scope: scope
            )
        )
    }

    /// Scans what follows IN: a table, or something in parentheses, which is left to the caller's scan.
    func scanInOperand(_ scope: Int) throws(Unknown) {
        if kind == .leftParen { return }
        let name = try parseObjectName()
        let isFunction = kind == .leftParen
        tableReferences.append(
            TableReference(
                name: name,
                alias: nil,
                indexedBy: nil,
                scope: scope,
                context: .inOperator,
                isTableFunction: isFunction
            )
        )
        if isFunction { addCall(of: name, in: scope) }
    }

    func addCall(of name: ObjectName, in scope: Int) {
        let lowercased = SQLIdentifier.lowercased(name.name)
        functionCalls.append(FunctionCall(name: lowercased, nameRange: name.nameRange, scope: scope))
    }
}
