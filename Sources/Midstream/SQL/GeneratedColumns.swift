internal import SQLText

/// The generated columns of a table, as its CREATE TABLE defines them. SQLite itself tells only which columns are generated.
struct GeneratedColumns {
    /// The expression of each generated column, by the column's name in lower case. It is in parentheses, as
    /// ``CreateTable/sql(_:)`` gives it.
    let expressions: [String: String]
    /// The names of the STORED columns.
    private let stored: Set<String>

    init(createTable sql: String) {
        guard let table = CreateTable(sql) else {
            (expressions, stored) = ([:], [])
            return
        }
        var found: [String: String] = [:]
        var stored: Set<String> = []
        for column in table.columns {
            guard let constraint = column.constraints.first(where: { $0.kind == .generated }),
                let expression = table.parentheses(of: constraint)
            else { continue }
            let name = SQLIdentifier.lowercased(column.name)
            found[name] = table.sql(expression)
            if table.words(expression.upperBound..<constraint.range.upperBound) == "stored" { stored.insert(name) }
        }
        (expressions, self.stored) = (found, stored)
    }

    /// The expressions of the columns that are not STORED.
    var unstored: [String] { expressions.filter { !stored.contains($0.key) }.map(\.value) }

    /// The expressions of the columns, not STORED, that an expression on a row reads, directly or through other such columns.
    func readBy(_ text: String) -> [String] {
        var found: Set<String> = []
        var texts = [text]
        var position = 0
        while position < texts.count {
            for name in ExpressionShape.names(in: texts[position]) where !stored.contains(name) {
                guard let expression = expressions[name], found.insert(name).inserted else { continue }
                texts.append(expression)
            }
            position += 1
        }
        return Array(texts.dropFirst())
    }
}
