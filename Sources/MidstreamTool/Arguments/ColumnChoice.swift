/// What a column is made of, as `--map` gives it: `TABLE.COLUMN=SQL`.
struct ColumnChoice: Hashable, Sendable {
    var table: String
    var column: String
    /// An expression on the source's columns.
    var expression: String

    init?(_ text: String) {
        guard let equals = text.firstIndex(of: "=") else { return nil }
        let name = text[..<equals]
        guard let dot = name.firstIndex(of: ".") else { return nil }
        table = String(name[..<dot])
        column = String(name[name.index(after: dot)...])
        expression = String(text[text.index(after: equals)...])
        if table.isEmpty || column.isEmpty || expression.isEmpty { return nil }
    }
}
