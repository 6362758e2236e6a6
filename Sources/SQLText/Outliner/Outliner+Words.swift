/// Where a scan is in its expression.
struct ScanState {
    /// The parentheses that are open, the innermost last.
    var parentheses: [Parenthesis] = []
    /// Whether an operand must come next: at the start, and after an operator.
    var wantsOperand = true

    var depth: Int { parentheses.count }

    /// What an open parenthesis holds.
    enum Parenthesis {
        /// A single expression.
        case operand
        /// Several expressions: a row value.
        case row
        /// The arguments of a call, or what follows IN.
        case list
    }
}

extension Outliner {
    /// Takes a bare word in an expression. Gives `false` if the expression ends before the word.
    func scanWord(
        in scope: Int,
        _ options: ScanOptions,
        _ state: inout ScanState
    ) throws(Unknown) -> Bool {
        let word = words[position]
        switch word {
        case .not:
            position += 1
            // NOT LIKE is one operator.
            let isOperator = !state.wantsOperand && [.like, .glob, .regexp, .match].contains(self.word)
            state.wantsOperand = !isOperator
        case .and, .or, .between, .case, .when, .then, .else, .escape, .collate, .exists:
            position += 1
            state.wantsOperand = true
        case .null, .isnull, .notnull:
            position += 1
            state.wantsOperand = false
        case .like, .glob, .regexp, .match:
            if state.wantsOperand { return try scanNameWord(in: scope, &state) }
            position += 1
            state.wantsOperand = true
        case .is:
            position += 1
            _ = take(.not)
            // The FROM in IS DISTINCT FROM starts no clause.
            if self.word == .distinct, self.word(at: position + 1) == .from { position += 2 }
            state.wantsOperand = true
        case .in:
            position += 1
            try scanInOperand(scope)
            state.wantsOperand = self.kind == .leftParen
        case .as:
            guard state.depth > 0 || options.contains(.aliases) else { return false }
            position += 1
            guard isName(at: position) else { throw Unknown() }
            position += 1
            state.wantsOperand = false
        case .do where options.contains(.untilDo) && state.depth == 0 && !state.wantsOperand:
            return false
        case .begin where options.contains(.untilBegin) && state.depth == 0 && !state.wantsOperand:
            return false
        case .window where state.depth == 0 && isWindowClause(at: position):
            return false
        case .over where kind(at: position - 1) == .rightParen && position > 0:
            try scanOver()
            state.wantsOperand = false
        case .filter
        where position > 0 && kind(at: position - 1) == .rightParen && kind(at: position + 1) == .leftParen:
            position += 1
        case .within where self.word(at: position + 1) == .group && kind(at: position + 2) == .leftParen:
            position += 2
        default:
            return try scanOtherWord(word, in: scope, &state)
        }
        return true
    }

    /// Takes a word that has no meaning of its own in an expression: a name, or a word of a clause that stands in parentheses.
    private func scanOtherWord(_ word: Keyword, in scope: Int, _ state: inout ScanState) throws(Unknown) -> Bool {
        if word.isJoinWord, !state.wantsOperand {
            if state.depth == 0 { return false }
            throw Unknown()
        }
        if !word.isReserved { return try scanNameWord(in: scope, &state) }
        if state.depth == 0 { return false }
        try scanReservedInParentheses(word)
        state.wantsOperand = true
        return true
    }

    private func scanNameWord(in scope: Int, _ state: inout ScanState) throws(Unknown) -> Bool {
        try scanName(in: scope)
        state.wantsOperand = false
        return true
    }

    /// Takes `OVER w`, or the OVER before a parenthesis. The scan itself goes on with the parenthesis.
    private func scanOver() throws(Unknown) {
        position += 1
        if isName(at: position) { position += 1 }
    }

    /// Takes a reserved word of the clauses that calls, filters and windows have in their parentheses.
    private func scanReservedInParentheses(_ word: Keyword) throws(Unknown) {
        let isFirst = kind(at: position - 1) == .leftParen
        switch word {
        case .order where self.word(at: position + 1) == .by:
            position += 2
        case .distinct where isFirst, .all where isFirst:
            position += 1
        case .where where isFirst && position > 1 && self.word(at: position - 2) == .filter:
            position += 1
        case .group where self.word(at: position - 1) == .exclude:
            position += 1
        default:
            throw Unknown()
        }
    }
}
