internal import SQLText
internal import SQLiteConnection

/// A table's columns and keys, as SQLite describes them.
struct TableSchema: Hashable {
    var name: String
    /// The text of the table's CREATE TABLE.
    var sql: String
    let columns: [Column]
    /// The index of the column that is the rowid; `nil` if no column is.
    var rowIDColumn: Int?
    var hasRowID: Bool
    /// The PRIMARY KEY of a table without rowids; empty if the table has rowids.
    var primaryKey: [Index.Term]
    var isAutoIncrement: Bool
    var isStrict: Bool
    var indexes: [Index]
    /// The tables that foreign keys refer to.
    var parents: [String]
    /// The places of the columns, by their names in lower case.
    private let places: [ExactString: Int]

    init(
        name: String,
        sql: String,
        columns: [Column],
        hasRowID: Bool,
        primaryKey: [Index.Term],
        isAutoIncrement: Bool,
        isStrict: Bool,
        indexes: [Index],
        parents: [String]
    ) {
        self.name = name
        self.sql = sql
        self.columns = columns
        self.hasRowID = hasRowID
        self.primaryKey = primaryKey
        self.isAutoIncrement = isAutoIncrement
        self.isStrict = isStrict
        self.indexes = indexes
        self.parents = parents
        let names = columns.enumerated().map { (ExactString(string: SQLIdentifier.lowercased($1.name)), $0) }
        places = Dictionary(names) { first, _ in first }
    }

    struct Column: Hashable {
        var name: String
        var type: String
        var collation: String
        /// The generation expression, as tokens separated by one space; `nil` if the column is not generated.
        var generation: String?
        var affinity: Affinity
        var isNotNull: Bool
        /// The default, as an expression; `nil` when there is none.
        var defaultValue: String?

        /// What REPLACE stores in place of NULL.
        var replacement: String? { isNotNull ? defaultValue : nil }

        /// Whether the replacement may be another value each time.
        var isReplacementVolatile: Bool {
            guard let replacement else { return false }
            return SQLScript("SELECT \(replacement)").flatMap(\.functionCalls).contains { !Self.isFixed($0.name) }
        }

        /// Whether a function gives the same value throughout a statement, its triggers included.
        private static func isFixed(_ function: String) -> Bool {
            ConnectionTerms.timeFunctions.contains(function)
                || VolatileTerms.isStable(function) && !["changes", "total_changes"].contains(function)
        }

        /// Whether equal values of the column are always identical.
        var isUnmistakable: Bool {
            SQLIdentifier.equal(collation, "BINARY") && [.integer, .text].contains(affinity)
        }
    }

    struct Index: Hashable {
        var name: String
        var isUnique: Bool
        var isPrimaryKey: Bool
        var isPartial: Bool
        /// Columns by their index; `nil` for an expression, -1 for the rowid.
        var terms: [Term]
        /// The columns of the row's key that an index entry has after the terms.
        var rest: [Term] = []

        struct Term: Hashable {
            var column: Int?
            var isDescending: Bool
            var collation: String
        }

        /// Whether every row has an entry in the index, and all terms are columns.
        var isPlain: Bool { !isPartial && terms.allSatisfy { $0.column != nil } }
    }

    /// A name by which the rowid can be reached, even if a column has taken the usual one; `nil` if there is none.
    var rowIDName: String? {
        if let rowIDColumn { return SQLIdentifier.quoted(columns[rowIDColumn].name) }
        return ["rowid", "_rowid_", "oid"].first { name in
            !columns.contains { SQLIdentifier.equal($0.name, name) }
        }
    }

    /// Whether an expression on a row may use `name`.
    func hasColumn(_ name: String) -> Bool {
        columnIndex(name) != nil || hasRowID && MappedColumns.isRowIDName(name)
    }

    /// The words of an expression that mean the rowid or a truth value if no column has that name, and that are written wrongly. A
    /// word that means a column must be in double quotes, any other must not. Written so, no column that is added later changes
    /// what a word means.
    ///
    /// - Returns: The words in lower case, and whether there is such a column.
    func misreadWords(in expression: String) -> [(name: String, isColumn: Bool)] {
        ExpressionShape.writtenNames(in: expression).compactMap { word in
            let isTruth = MappedColumns.isTruthName(word.name)
            guard isTruth || hasRowID && MappedColumns.isRowIDName(word.name) else { return nil }
            let column = columnIndex(word.name)
            // The column that is the rowid means the rowid, whatever it is called.
            if !isTruth, let column, column == rowIDColumn { return nil }
            return (column != nil) == word.isDoubleQuoted ? nil : (word.name, column != nil)
        }
    }

    /// The column's own name, in lower case. An INTEGER PRIMARY KEY also has the names of the rowid.
    func ownName(_ name: String) -> String {
        guard columnIndex(name) == nil, hasColumn(name) else { return SQLIdentifier.lowercased(name) }
        return rowIDColumn.map { SQLIdentifier.lowercased(columns[$0].name) } ?? "rowid"
    }

    /// Whether rows from before ALTER TABLE added a column may hold an integer in it, which no row that is written can. In such
    /// rows, SQLite does not convert the default TRUE or FALSE to a text. ALTER TABLE adds no column that has a UNIQUE constraint
    /// or is in one of the table's.
    func mayHoldTruthValues(_ column: Int) -> Bool {
        guard columns[column].affinity == .text, ["true", "false"].contains(columns[column].defaultValue) else {
            return false
        }
        return !indexes.contains { index in
            index.name.hasPrefix("sqlite_autoindex_") && index.terms.contains { $0.column == column }
        }
    }

    func hasIndex(_ name: String) -> Bool {
        indexes.contains { SQLIdentifier.equal($0.name, name) }
    }

    func columnIndex(_ name: String) -> Int? {
        places[ExactString(string: SQLIdentifier.lowercased(name))]
    }

    /// The most arguments that a function can take in SQLite as it is commonly built, minus Midstream's own arguments.
    private static let mostKeyColumns = 100

    /// The keys that must be unique besides the rowid.
    var uniqueIndexes: [Index] { indexes.filter(\.isUnique) }

    /// The unique indexes whose values a trigger of Midstream can pass on: NEW has these values before the row exists.
    var comparableKeys: [Index] {
        let plain = uniqueIndexes.filter(isComparable)
        return plain.map(\.terms.count).reduce(0, +) > Self.mostKeyColumns ? [] : plain
    }

    private func isComparable(_ index: Index) -> Bool {
        // An index whose name is not UTF-8 has no terms here: its columns cannot be asked for.
        if !index.isPlain || index.terms.isEmpty { return false }
        return !index.terms.compactMap(\.column).contains { $0 >= 0 && columns[$0].generation != nil }
    }

    /// Whether a row may have to be unique by a key whose values triggers cannot pass on.
    var hasOtherKeys: Bool { comparableKeys.count < uniqueIndexes.count }
}

/// How SQLite converts values that are stored in a column.
///
/// Source: <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>.
enum Affinity: Hashable {
    case integer, text, blob, real, numeric

    init(declaredType: String, isStrict: Bool) {
        let type = SQLIdentifier.lowercased(declaredType)
        switch type {
        case "integer", "int": self = .integer
        case "text": self = .text
        case "", "blob": self = .blob
        case "real": self = .real
        default: self.init(words: type, isStrict: isStrict)
        }
    }

    /// - Parameter type: The declared type, in lower case.
    private init(words type: String, isStrict: Bool) {
        func has(_ word: String) -> Bool { type.utf8.firstRange(of: word.utf8) != nil }
        // ANY has a meaning of its own only in a STRICT table.
        if isStrict, type == "any" {
            self = .blob
        } else if has("int") {
            self = .integer
        } else if has("char") || has("clob") || has("text") {
            self = .text
        } else if type.isEmpty || has("blob") {
            self = .blob
        } else if has("real") || has("floa") || has("doub") {
            self = .real
        } else {
            self = .numeric
        }
    }

    /// A declared type that has this affinity.
    var typeName: String {
        switch self {
        case .integer: "INTEGER"
        case .text: "TEXT"
        case .blob: "BLOB"
        case .real: "REAL"
        case .numeric: "NUMERIC"
        }
    }

    var isNumeric: Bool {
        switch self {
        case .integer, .real, .numeric: true
        case .text, .blob: false
        }
    }
}

extension Collection where Element: Equatable {
    /// The first place at which `other` occurs as a contiguous run.
    fileprivate func firstRange(of other: some Collection<Element>) -> Index? {
        var start = startIndex
        while start != endIndex {
            if self[start...].starts(with: other) { return start }
            formIndex(after: &start)
        }
        return nil
    }
}
