internal import SQLText
internal import SQLiteConnection

/// The terms that are evaluated on each row that moves into a table.
struct RehearsedTerms {
    struct Term {
        /// What the term is, as in "CHECK (a > 0)".
        let what: String
        /// The expression on a row with the target's names.
        let value: String
        /// The target's column of which the term is the value, made of the source's row.
        var column: Int?
        /// The target's columns that the term names.
        var operands: [Int] = []
        /// Whether the term is an expression on a row of the source instead.
        var isOfSource = false
        /// Whether the term tests for a NULL that an expression gives to a NOT NULL column.
        var isMade = false
    }

    /// The terms that fail on some values.
    private(set) var mayFail: [Term] = []
    /// The conditions that are true for rows which the target's constraints refuse.
    private(set) var refusing: [Term] = []

    let target: TableSchema
    private let source: TableSchema
    private let columns: MappedColumns

    /// The source's original SQL, with its CHECK constraints: a rebuild takes them from the table.
    private let sourceSQL: String

    /// Only the migration's condition, which decides which rows come.
    init(condition: String, _ sql: MoveSQL, target: TableSchema, source: TableSchema) {
        self.target = target
        self.source = source
        sourceSQL = source.sql
        columns = sql.columns
        if ConnectionTerms(condition, of: source, readingGenerated: true).mayFail {
            mayFail.append(Term(what: "the condition", value: "(\(condition)\n)", isOfSource: true))
        }
    }

    /// The terms that are evaluated on the rows that come.
    ///
    /// - Parameters:
    ///   - former: The SQL that the source had before a rebuild renamed it.
    ///   - connection: A connection whose `main` has the target.
    init(
        _ sql: MoveSQL,
        target: TableSchema,
        source: TableSchema,
        former: String?,
        on connection: Connection
    ) throws {
        self.target = target
        self.source = source
        sourceSQL = former ?? source.sql
        columns = sql.columns
        addColumns()
        let table = CreateTable(target.sql)
        for check in table.map(Self.checks) ?? [] {
            add("CHECK \(check)", check, mayRefuse: !isKept(check))
        }
        if target.isStrict { addTypes() }
        for index in target.indexes where !index.isPlain {
            let text = "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?"
            guard let definition = try connection.fetchValue(String.self, text, [index.name]) else { continue }
            let terms = IndexTerms(definition)
            for term in terms.terms + [terms.condition].compactMap(\.self) {
                add("an expression of index \(index.name)", term, mayRefuse: false)
            }
        }
    }

    /// The name under which a row has the value that a column will get.
    static func alias(_ column: Int) -> String { "midstream_value\(column)" }

    private static func checks(_ table: CreateTable) -> [String] {
        (table.columns.flatMap(\.constraints) + table.constraints).filter { $0.kind == .check }
            .compactMap { table.parentheses(of: $0).map(table.sql) }
    }

    // MARK: Columns

    private mutating func addColumns() {
        for (index, column) in target.columns.enumerated() where index != target.rowIDColumn {
            let mapped = columns[index]
            let value = Self.alias(index)
            if mapped.mayFail {
                mayFail.append(Term(what: what(column), value: value, column: index))
            }
            guard column.isNotNull, column.generation == nil else { continue }
            if let plain = plain(index), source.columns[plain].isNotNull || source.rowIDColumn == plain { continue }
            if Self.isNeverNull(mapped.copied) { continue }
            refusing.append(
                Term(
                    what: "NULL in column \(column.name)",
                    value: "\(value) IS NULL",
                    column: index,
                    isMade: plain(index) == nil
                )
            )
        }
    }

    private func what(_ column: TableSchema.Column) -> String {
        let isMade = column.generation == nil && source.columnIndex(column.name) == nil
        return isMade ? "the expression for column \(column.name)" : "column \(column.name)"
    }

    /// The source's column that has the same values, even if it compares in another way.
    private func plain(_ index: Int) -> Int? {
        columns[index].plain
            ?? source.columns.firstIndex { SQLIdentifier.quoted($0.name) == columns[index].copied }
    }

    /// Whether an expression is a literal, or a call of `coalesce` or `ifnull` whose last argument is one.
    private static func isNeverNull(_ expression: String) -> Bool {
        let bytes = Array(expression.utf8)
        var tokens = SQLTokenizer(expression).filter { !$0.isTrivia }[...]
        func word(_ token: Token) -> String {
            SQLIdentifier.lowercased(String(decoding: bytes[token.range], as: UTF8.self))
        }
        let literals: Set<TokenKind> = [.integer, .float, .string, .blob]
        while tokens.count > 2, tokens.first?.kind == .leftParen, tokens.last?.kind == .rightParen {
            tokens = tokens.dropFirst().dropLast()
        }
        if tokens.count == 2, tokens.first?.kind == .operator { tokens = tokens.dropFirst() }
        if tokens.count == 1, let only = tokens.first { return literals.contains(only.kind) }
        guard tokens.count >= 6, let first = tokens.first, ["coalesce", "ifnull"].contains(word(first)) else {
            return false
        }
        let end = Array(tokens.suffix(3))
        guard end[0].kind == .comma, literals.contains(end[1].kind), end[2].kind == .rightParen else { return false }
        // Checks that the outer parentheses are those of the call.
        var depth = 0
        for token in tokens.dropFirst().dropLast() {
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 { return false }
        }
        return true
    }

    /// Adds the conditions by which a STRICT table refuses values of other types.
    ///
    /// Source: <https://www.sqlite.org/stricttables.html>.
    private mutating func addTypes() {
        for (index, column) in target.columns.enumerated() where index != target.rowIDColumn {
            let type = SQLIdentifier.lowercased(column.type)
            let isKept = plain(index).map { source.isStrict && SQLIdentifier.equal(source.columns[$0].type, type) }
            guard isKept != true, let types = Self.types[type] else { continue }
            let value = "typeof(\(Self.alias(index))) NOT IN (\(types), 'null')"
            let what = "a value in column \(column.name) that is not of type \(column.type)"
            refusing.append(Term(what: what, value: value, column: index))
        }
    }

    private static let types = [
        "int": "'integer'", "integer": "'integer'", "real": "'real', 'integer'", "text": "'text'", "blob": "'blob'",
    ]

    // MARK: Expressions on the target's columns

    private mutating func add(_ what: String, _ expression: String, mayRefuse: Bool) {
        let operands = MappedColumns.operands(of: expression, in: target)
        // A row by itself cannot have columns of these names.
        let names = ExpressionShape.names(in: expression)
        let own = Set(operands.map { SQLIdentifier.lowercased(target.columns[$0].name) })
        guard names.isDisjoint(with: MappedColumns.rowIDNames.subtracting(own)),
            !operands.contains(where: { MappedColumns.isTruthName(target.columns[$0].name) })
        else { return }
        // The expression is on lines of its own, so that a comment in it cannot reach what follows.
        if ConnectionTerms(expression, of: target).mayFail {
            mayFail.append(Term(what: what, value: "(\(expression)\n)", operands: operands))
        }
        if mayRefuse {
            refusing.append(Term(what: what + " not met", value: "NOT (\(expression)\n)", operands: operands))
        }
    }

    /// Whether the source has the same CHECK on the same columns.
    private func isKept(_ check: String) -> Bool {
        guard let table = CreateTable(sourceSQL), Self.checks(table).contains(where: { $0.hasSameBytes(as: check) })
        else { return false }
        return MappedColumns.operands(of: check, in: target).allSatisfy { index in
            columns[index].plain.map { SQLIdentifier.equal(source.columns[$0].name, target.columns[index].name) }
                ?? false
        }
    }
}
