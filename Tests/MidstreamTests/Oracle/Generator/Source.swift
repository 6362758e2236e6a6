/// A table or subquery as an expression may name it.
struct Source {
    /// What stands before the name of a column, with a dot: the alias, or the table's name.
    var qualifier: String
    /// Quoted names of columns.
    var columns: [String]
    /// The rowid's name; `nil` for views and subqueries.
    var rowID: String?
    /// Whether the table can be named as `main.T.column`.
    var isMain = false

    /// Quoted names of the columns of the PRIMARY KEY, where there are no rowids.
    var primaryKey: [String] = []

    /// Whether a RIGHT or FULL JOIN is in its FROM clause.
    var isInRightJoin = false

    /// What orders the rows totally: rows that tie are equal. What `quote` gives ends at the first NUL of a text.
    var totalOrder: [String] {
        if !primaryKey.isEmpty { return primaryKey.map { "\(qualifier).\($0)" } }
        if let rowID { return ["\(qualifier).\(rowID)"] }
        return columns.flatMap { ["quote(\(qualifier).\($0))", "hex(\(qualifier).\($0))"] }
    }
}

/// The text of a query, and how its rows can be compared.
struct Query {
    var text: String
    var columnCount: Int
    var order = Command.Order.none
    var isLoose = false
}
