internal import SQLText
internal import SQLiteConnection

/// What rows a table may have, and how they are found and compared. Two tables of the same shape are the same to whoever uses them.
/// The case of names does not count, nor does the order of columns. Types count by the affinity that they give, expressions by
/// their words. Texts are compared by their bytes, as SQLite does.
struct TableShape: Hashable {
    /// The columns, by their names in lower case.
    private var columns: [ExactString: Column] = [:]
    var primaryKey: ExactString
    var uniqueKeys: Set<ExactString>
    /// CHECK constraints, and the ON CONFLICT clauses of other constraints.
    var checks: [ExactString]
    var foreignKeys: Set<ExactString>
    var options: Set<String>

    struct Column: Hashable {
        var type: ExactString
        /// What the type does to values. A STRICT table's type and another table's may have the same affinity.
        var affinity: Affinity
        var collation: ExactString
        var isNotNull: Bool
        /// The default's words; `nil` if there is no default.
        var defaultValue: ExactString?
        /// The words of the generation expression, followed by `stored` if the column is STORED; `nil` if the column is not
        /// generated.
        var generation: ExactString?
    }

    /// A column, by its name.
    func column(_ name: String) -> Column? { columns[Self.key(name)] }

    private static func key(_ name: String) -> ExactString { ExactString(string: SQLIdentifier.lowercased(name)) }

    init(_ table: TableSchema, _ definition: CreateTable) throws {
        func name(_ column: Int?) -> String {
            column.map { $0 < 0 ? "rowid" : SQLIdentifier.lowercased(table.columns[$0].name) } ?? "?"
        }
        func words(_ terms: [TableSchema.Index.Term]) -> String {
            terms.map { term in
                "\(name(term.column)) \(SQLIdentifier.lowercased(term.collation))\(term.isDescending ? " desc" : "")"
            }.joined(separator: ", ")
        }
        for column in table.columns {
            let constraint = definition.columns.first { SQLIdentifier.equal($0.name, column.name) }?.constraints
                .first { $0.kind == .generated }
            columns[Self.key(column.name)] = Column(
                type: table.isStrict ? Self.key(column.type) : ExactString(string: column.affinity.typeName),
                affinity: column.affinity,
                collation: Self.key(column.collation),
                isNotNull: column.isNotNull,
                defaultValue: column.defaultValue.map { ExactString(string: CreateTable.words($0)) },
                generation: column.generation.map { sql in
                    let isStored = constraint.map { definition.words($0.body).hasSuffix("stored") } ?? false
                    return ExactString(string: CreateTable.words(sql) + (isStored ? " stored" : ""))
                }
            )
        }
        let constraints =
            definition.columns.flatMap { column in column.constraints.map { (column: column.name, constraint: $0) } }
            + definition.constraints.map { (column: "", constraint: $0) }
        let automatic = table.indexes.filter { $0.name.hasPrefix("sqlite_autoindex_") }
        primaryKey = ExactString(
            string: table.rowIDColumn.map { "integer " + name($0) }
                ?? words(table.hasRowID ? automatic.first(where: \.isPrimaryKey)?.terms ?? [] : table.primaryKey)
        )
        uniqueKeys = Set(automatic.filter { !$0.isPrimaryKey }.map { ExactString(string: words($0.terms)) })
        checks = constraints.compactMap { column, constraint in
            let words = definition.words(constraint.body)
            if constraint.kind == .check { return words }
            let owner = SQLIdentifier.lowercased(column)
            return [.primaryKey, .unique, .notNull].contains(constraint.kind) && words.contains(" on conflict ")
                ? "\(owner) \(words)" : nil
        }.sorted().map(ExactString.init)
        foreignKeys = Set(
            constraints.filter { $0.constraint.kind == .foreignKey }.map { column, constraint in
                let words = definition.names(constraint.body)
                return ExactString(
                    string: column.isEmpty ? words : "foreign key ( \(SQLIdentifier.lowercased(column)) ) \(words)"
                )
            }
        )
        options = []
        if !table.hasRowID { options.insert("WITHOUT ROWID") }
        if table.isStrict { options.insert("STRICT") }
        if table.isAutoIncrement { options.insert("AUTOINCREMENT") }
    }

    /// Tells in words how a table changes that gets another shape.
    ///
    /// - Parameter renamed: New names of columns by the old ones, both in lower case.
    func differences(to other: TableShape, renamed: [String: String]) -> [String] {
        var words: [String] = []
        var kept: Set<ExactString> = []
        for (name, column) in columns.map({ ($0.string, $1) }).sorted(by: { $0.0 < $1.0 }) {
            let new = renamed[name] ?? name
            guard let changed = other.column(new) else {
                words.append("column \(name) goes")
                continue
            }
            kept.insert(Self.key(new))
            if new != name { words.append("column \(name) is called \(new)") }
            words += column.differences(to: changed).map { "column \(new) \($0)" }
        }
        words += other.columns.keys.filter { !kept.contains($0) }.map(\.string).sorted().map { "column \($0) comes" }
        if primaryKey != other.primaryKey { words.append("another PRIMARY KEY") }
        if uniqueKeys != other.uniqueKeys { words.append("other UNIQUE constraints") }
        if checks != other.checks { words.append("other CHECK or ON CONFLICT clauses") }
        if foreignKeys != other.foreignKeys { words.append("other foreign keys") }
        for option in options.symmetricDifference(other.options).sorted() {
            words.append((other.options.contains(option) ? "" : "not ") + option)
        }
        return words
    }
}

extension TableShape.Column {
    fileprivate func differences(to other: Self) -> [String] {
        var words: [String] = []
        let (was, becomes) = (type.string.uppercased(), other.type.string.uppercased())
        if was != becomes { words.append("has type \(becomes) instead of \(was)") }
        if collation != other.collation { words.append("has another collation") }
        if isNotNull != other.isNotNull { words.append(other.isNotNull ? "is NOT NULL" : "may be NULL") }
        if defaultValue != other.defaultValue { words.append("has another default") }
        if generation != other.generation { words.append("is generated in another way") }
        return words
    }
}
