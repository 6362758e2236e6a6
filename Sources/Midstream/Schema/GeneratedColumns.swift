internal import SQLText

/// The generated columns of a table, as its CREATE TABLE defines them: SQLite itself tells no more than which they are.
struct GeneratedColumns {
    /// The expressions in their parentheses by the columns' names in lower case, as ``CreateTable/sql(_:)`` gives them.
    let expressions: [String: String]

    init(createTable sql: String) {
        guard let table = CreateTable(sql) else {
            expressions = [:]
            return
        }
        var found: [String: String] = [:]
        for column in table.columns {
            guard let constraint = column.constraints.first(where: { $0.kind == .generated }),
                let expression = table.parentheses(of: constraint)
            else { continue }
            found[SQLIdentifier.lowercased(column.name)] = table.sql(expression)
        }
        expressions = found
    }
}
