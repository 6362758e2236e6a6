internal import SQLText
internal import SQLiteConnection

/// What is evaluated on each row that moves into a table.
struct RehearsedTerms {
    struct Term {
        /// What it is, as in "CHECK (a > 0)".
        let what: String
        /// The expression on a row with the target's names.
        let value: String
        /// The target's column that it is the value of, as the source's row gives it.
        var column: Int?
        /// The target's columns that it names.
        var operands: [Int] = []
        /// Whether it is an expression on a row of the source instead.
        var isOfSource = false
        /// Whether it is true for NULL that an expression gives a column which is NOT NULL.
        var isMade = false
    }

    /// Expressions that fail on some values.
    private(set) var mayFail: [Term] = []
    /// Conditions that are true for rows which the target's constraints refuse.
    private(set) var refusing: [Term] = []

    let target: TableSchema
    private let source: TableSchema
    private let columns: MappedColumns

    /// The SQL of the source as it was, with its CHECK constraints: they are taken from a table that is rebuilt.
    private let sourceSQL: String

    /// The condition alone, which decides which rows come.
    init(condition: String, _ sql: MoveSQL, target: TableSchema, source: TableSchema) {
        self.target = target
        self.source = source
        sourceSQL = source.sql
        columns = sql.columns
        if ConnectionTerms(condition, of: source, readingGenerated: true).mayFail {
            mayFail.append(Term(what: "the condition", value: "(\(condition)\n)", isOfSource: true))
        }
    }

    /// What is evaluated on the rows that come.
    ///
    /// - Parameters:
    ///   - former: The SQL that the source had before it was renamed to be rebuilt.
    ///   - connection: Has the target in `main`.
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

    /// The name under which a row has what a column will be.
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

    /// The source's column that has the same values, be it compared otherwise.
    private func plain(_ index: Int) -> Int? {
        columns[index].plain
            ?? source.columns.firstIndex { SQLIdentifier.quoted($0.name) == columns[index].copied }
    }

    /// Whether an expression is a call of `coalesce` or `ifnull` that ends with a literal, or a literal itself.
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
        // The parentheses are those of the call.
        var depth = 0
        for token in tokens.dropFirst().dropLast() {
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 { return false }
        }
        return true
    }

    /// A STRICT table refuses values of other types.
    ///
    /// Source: <https://www.sqlite.org/stricttables.html>.
    private mutating func addTypes() {
        for (index, column) in target.columns.enumerated() where index != target.rowIDColumn {
            let type = SQLIdentifier.lowercased(column.type)
            let isKept = plain(index).map { source.isStrict && SQLIdentifier.equal(source.columns[$0].type, type) }
            guard isKept != true, let types = Self.types[type] else { continue }
            let value = "typeof(\(Self.alias(index))) NOT IN (\(types), 'null')"
            let what = "a value in column \(column.name) that is no \(column.type)"
            refusing.append(Term(what: what, value: value, column: index))
        }
    }

    private static let types = [
        "int": "'integer'", "integer": "'integer'", "real": "'real', 'integer'", "text": "'text'", "blob": "'blob'",
    ]

    // MARK: Expressions on the target's columns

    private mutating func add(_ what: String, _ expression: String, mayRefuse: Bool) {
        let operands = MappedColumns.operands(of: expression, in: target)
        // A row by itself cannot have these names.
        let names = ExpressionShape.names(in: expression)
        let own = Set(operands.map { SQLIdentifier.lowercased(target.columns[$0].name) })
        guard names.isDisjoint(with: MappedColumns.rowIDNames.subtracting(own)),
            !operands.contains(where: { MappedColumns.isTruthName(target.columns[$0].name) })
        else { return }
        // On lines of its own, so that a comment cannot reach what follows.
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
