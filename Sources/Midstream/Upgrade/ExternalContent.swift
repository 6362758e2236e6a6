internal import SQLText
internal import SQLiteConnection

/// The table or view that a virtual table reads by its name, as full-text tables with `content=T` do. Only the virtual
/// table's module could replace this name by another.
///
/// Source: <https://www.sqlite.org/fts5.html#external_content_and_contentless_tables>.
struct ExternalContent {
    /// The virtual table.
    let reader: String
    /// The table or view that it reads.
    let table: String
    /// The columns that it reads; `nil` for all of them.
    private let columns: [String]?

    /// What a virtual table reads. If the module is not known, the virtual table may read any table that an argument
    /// names.
    static func all(of virtual: SchemaObject) -> [ExternalContent] {
        guard let arguments = ModuleArguments(virtual.sql) else { return [] }
        func content(_ table: String, _ columns: [String]?) -> ExternalContent {
            ExternalContent(reader: virtual.name, table: table, columns: columns)
        }
        switch arguments.module {
        case "fts4", "fts5":
            guard let table = arguments.value(of: "content"), !table.isEmpty else { return [] }
            let columns = arguments.names
            // Without columns of its own, FTS4 has those of its content.
            if columns.isEmpty { return [content(table, nil)] }
            let options = ["content_rowid", "languageid"].compactMap(arguments.value)
            return [content(table, columns + options)]
        case "fts3", "fts3tokenize", "fts4aux", "fts5vocab", "rtree", "rtree_i32", "geopoly", "dbstat": return []
        default: return arguments.values.map { content($0, []) }
        }
    }

    /// The table that is the content of a full-text table, which indexes the rows of that table.
    static func fullText(of virtual: SchemaObject) -> String? {
        guard let arguments = ModuleArguments(virtual.sql), ["fts4", "fts5"].contains(arguments.module),
            let table = arguments.value(of: "content"), !table.isEmpty
        else { return nil }
        return table
    }

    /// Whether the virtual table reads a column.
    func reads(_ column: String) -> Bool { columns?.contains { SQLIdentifier.equal($0, column) } ?? true }
}

/// What follows USING in a CREATE VIRTUAL TABLE.
private struct ModuleArguments {
    /// The module's name, in lower case.
    let module: String
    /// The first words of the arguments that are not `key=value`.
    private(set) var names: [String] = []
    /// The values of the `key=value` arguments, and the arguments that are one word, without quotes.
    private(set) var values: [String] = []
    private var options: [(key: String, value: String)] = []

    init?(_ sql: String) {
        guard let range = SQLScript(sql).outline().arguments else { return nil }
        let bytes = Array(sql.utf8)
        func text(_ range: Range<Int>) -> String {
            SQLIdentifier.unquoted(String(decoding: bytes[range], as: UTF8.self))
        }
        let tokens = SQLTokenizer(sql).filter { !$0.isTrivia && range.contains($0.range.lowerBound) }
        guard tokens.count > 1 else { return nil }
        module = SQLIdentifier.lowercased(text(tokens[1].range))
        var depth = 0
        var argument: [Token] = []
        for token in tokens.dropFirst(2) {
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 || depth == 1 && token.kind == .comma {
                take(argument, bytes, text)
                argument = []
            } else {
                argument.append(token)
            }
            if token.kind == .leftParen { depth += 1 }
        }
    }

    private mutating func take(_ argument: [Token], _ bytes: [UInt8], _ text: (Range<Int>) -> String) {
        guard let first = argument.first, let last = argument.last else { return }
        let isOption = argument.count > 1 && bytes[argument[1].range].elementsEqual("=".utf8)
        if isOption {
            let value = argument.count > 2 ? text(argument[2].range.lowerBound..<last.range.upperBound) : ""
            options.append((text(first.range), value))
            values.append(value)
        } else {
            names.append(text(first.range))
            if argument.count == 1 { values.append(text(first.range)) }
        }
    }

    func value(of key: String) -> String? { options.first { SQLIdentifier.equal($0.key, key) }?.value }
}
