internal import SQLText
public import SQLiteConnection

/// A table that an application wants, described in Swift: its columns, constraints and indexes.
///
///     var messages = try TableDescription("messages", of: Message.self, primaryKey: ["id"])
///     messages["body"]?.collation = "NOCASE"
///     messages.indexes = [IndexDescription("messages_by_time", on: ["sent"])]
///     try database.upgrade(to: DatabaseSchema([messages]))
public struct TableDescription: Sendable, Hashable {
    /// The table's name.
    public var name: String
    /// The columns in their order.
    public var columns: [ColumnDescription]
    /// The columns of the PRIMARY KEY. If it is a single column of type INTEGER, that column is the rowid.
    public var primaryKey: [String]
    /// Lists of columns whose values are unique together.
    public var uniqueKeys: [[String]] = []
    /// Expressions that must not be false.
    public var checks: [String] = []
    /// Whether no rowid is used twice. Needs a single INTEGER as the PRIMARY KEY.
    public var isAutoIncrement = false
    /// Whether the table is WITHOUT ROWID.
    public var isWithoutRowID = false
    /// Whether the table is STRICT.
    public var isStrict = false
    /// The indexes besides those that the keys make.
    public var indexes: [IndexDescription] = []

    /// Describes a table by its columns.
    public init(_ name: String, columns: [ColumnDescription], primaryKey: [String] = []) {
        self.name = name
        self.columns = columns
        self.primaryKey = primaryKey
    }

    /// Describes a table by the type of its records: a column for each property, NOT NULL where the property is not optional.
    /// See ``/SQLiteConnection/RecordColumn/columns(of:)``.
    ///
    /// - Throws: ``/SQLiteConnection/SQLiteError`` that names the property of which no column can be made.
    public init<Record: Decodable>(_ name: String, of type: Record.Type, primaryKey: [String] = []) throws {
        let columns = try RecordColumn.columns(of: type).map { column in
            let isKey = primaryKey.contains { SQLIdentifier.equal($0, column.name) }
            // SQLite chooses the key if an INSERT does not give it.
            return ColumnDescription(
                column.name,
                column.storage.rawValue,
                isNotNull: !column.isOptional && !(isKey && primaryKey.count == 1 && column.storage == .integer)
            )
        }
        self.init(name, columns: columns, primaryKey: primaryKey)
    }

    /// A column, by its name.
    public subscript(_ column: String) -> ColumnDescription? {
        get { columns.first { SQLIdentifier.equal($0.name, column) } }
        set {
            let index = columns.firstIndex { SQLIdentifier.equal($0.name, column) }
            switch (index, newValue) {
            case (let index?, let value?): columns[index] = value
            case (let index?, nil): columns.remove(at: index)
            case (nil, let value?): columns.append(value)
            case (nil, nil): break
            }
        }
    }

    /// The CREATE TABLE, and a CREATE INDEX for each index.
    public var statements: [String] {
        // If the key names no column, SQLite refuses it.
        let rowID = primaryKey.count == 1 && !isWithoutRowID ? primaryKey.first { self[$0] != nil } : nil
        var definitions = columns.map { column in
            let isKey = rowID.map { SQLIdentifier.equal($0, column.name) } ?? false
            return column.definition(key: isKey ? " PRIMARY KEY" + (isAutoIncrement ? " AUTOINCREMENT" : "") : "")
        }
        if rowID == nil, !primaryKey.isEmpty { definitions.append("PRIMARY KEY \(Self.list(primaryKey))") }
        definitions += uniqueKeys.map { "UNIQUE \(Self.list($0))" } + checks.map { "CHECK (\($0)\n)" }
        let options = (isWithoutRowID ? ["WITHOUT ROWID"] : []) + (isStrict ? ["STRICT"] : [])
        let table =
            "CREATE TABLE \(SQLIdentifier.quoted(name))(\n    \(definitions.joined(separator: ",\n    "))\n)"
            + (options.isEmpty ? "" : " " + options.joined(separator: ", "))
        return [table] + indexes.map { $0.statement(on: name) }
    }

    static func list(_ names: [String]) -> String {
        "(" + names.map(SQLIdentifier.quoted).joined(separator: ", ") + ")"
    }
}

/// A column that an application wants.
public struct ColumnDescription: Sendable, Hashable {
    /// The column's name.
    public var name: String
    /// The type as in a CREATE TABLE; empty for none.
    public var type: String
    /// Whether the column is NOT NULL.
    public var isNotNull: Bool
    /// The value of the column if an INSERT gives none.
    public var defaultValue: SQLiteValue?
    /// The collation by which texts of the column are compared; `nil` for BINARY.
    public var collation: String?
    /// Whether no two rows may have the same value.
    public var isUnique = false
    /// An expression that must not be false.
    public var check: String?
    /// The expression that computes the column. A column with one is generated, and virtual.
    public var generation: String?
    /// What follows REFERENCES, such as `people(id) ON DELETE CASCADE`.
    public var references: String?

    /// Describes a column.
    public init(_ name: String, _ type: String, isNotNull: Bool = false, defaultValue: SQLiteValue? = nil) {
        self.name = name
        self.type = type
        self.isNotNull = isNotNull
        self.defaultValue = defaultValue
    }

    fileprivate func definition(key: String) -> String {
        var text = SQLIdentifier.quoted(name) + (type.isEmpty ? "" : " \(type)") + key
        if isNotNull { text += " NOT NULL" }
        if isUnique { text += " UNIQUE" }
        if let defaultValue { text += " DEFAULT \(SQLLiteral.text(of: defaultValue))" }
        if let collation { text += " COLLATE \(SQLIdentifier.quoted(collation))" }
        if let check { text += " CHECK (\(check)\n)" }
        if let generation { text += " AS (\(generation)\n)" }
        if let references { text += " REFERENCES \(references.closingComment)" }
        return text
    }
}

/// An index that an application wants.
public struct IndexDescription: Sendable, Hashable {
    /// The index's name.
    public var name: String
    /// The terms of the index: names of columns, with DESC or COLLATE as in SQL, or expressions.
    public var terms: [String]
    /// Whether no two rows may have the same terms.
    public var isUnique: Bool
    /// Which rows are in the index; `nil` for all.
    public var condition: String?

    /// Describes an index.
    public init(_ name: String, on terms: [String], isUnique: Bool = false, condition: String? = nil) {
        self.name = name
        self.terms = terms
        self.isUnique = isUnique
        self.condition = condition
    }

    fileprivate func statement(on table: String) -> String {
        "CREATE \(isUnique ? "UNIQUE " : "")INDEX \(SQLIdentifier.quoted(name)) ON \(SQLIdentifier.quoted(table))"
            + "(\(terms.map(\.closingComment).joined(separator: ", ")))"
            + (condition.map { " WHERE \($0.closingComment)" } ?? "")
    }
}

extension String {
    /// The text, with a line feed after a comment at its end, so that the comment cannot reach what follows.
    fileprivate var closingComment: String {
        var last: Token?
        for token in SQLTokenizer(self) { last = token }
        return last?.kind == .comment ? self + "\n" : self
    }
}

extension DatabaseSchema {
    /// The schema of the described tables, with their indexes.
    public init(_ tables: [TableDescription]) {
        self.init(sql: tables.flatMap(\.statements).joined(separator: ";\n"))
    }
}
