internal import SQLText

/// Makes the table-valued functions that describe a table describe the one in `main`, where the argument is the name of a moving
/// table. Without this, `pragma_table_info('T')` would find the union table first, and the source's table once the union table has
/// been dropped.
struct DescribingFunctions {
    /// Pragmas that describe a table or an index.
    static let pragmas: Set<String> = [
        "table_info", "table_xinfo", "index_list", "foreign_key_list", "index_info", "index_xinfo",
    ]

    /// The arguments of the calls that name no schema.
    private let arguments: [Range<Int>]
    let isEmpty: Bool
    /// Whether every such call can be given a schema.
    let canBeEdited: Bool

    init(_ outline: StatementOutline, in text: String) {
        let references = outline.tableReferences.filter(Self.isDescribing)
        isEmpty = references.isEmpty
        var found: [Range<Int>] = []
        var isClear = true
        let tokens = isEmpty ? [] : SQLTokenizer(text).filter { !$0.isTrivia }
        for reference in references {
            // A call without arguments gets the table's name from a condition.
            guard reference.isTableFunction, let list = Self.list(after: reference.name.range.upperBound, tokens) else {
                isClear = false
                continue
            }
            if list.hasSecond { continue }
            // `apply` repeats the argument's text, and a query made of the statement may repeat it again: each copy must mean the
            // same.
            let isWrite = outline.kind == .update || outline.kind == .delete
            let repeats = outline.parameters.contains { parameter in
                list.range.contains(parameter.range.lowerBound) && (parameter.name == nil || isWrite)
            }
            let words = outline.text(list.range)
            if repeats || SQLIdentifier.lowercased(words).contains("select") {
                isClear = false
            } else {
                found.append(list.range)
            }
        }
        arguments = found
        canBeEdited = isClear
    }

    static func areUsed(in outline: StatementOutline) -> Bool { outline.tableReferences.contains(where: isDescribing) }

    /// Whether the reference is to such a function. SQLite accepts any schema before the function's name.
    private static func isDescribing(_ reference: TableReference) -> Bool {
        let name = reference.name.name
        return SQLIdentifier.begins(name, with: "pragma_")
            && pragmas.contains { SQLIdentifier.equal(name, "pragma_" + $0) }
    }

    /// The arguments in the parentheses that follow `end`, and whether there is a second argument. `nil` if there is none.
    static func list(after end: Int, _ tokens: [Token]) -> (range: Range<Int>, hasSecond: Bool)? {
        guard let open = tokens.firstIndex(where: { $0.range.lowerBound >= end }), tokens[open].kind == .leftParen
        else { return nil }
        var depth = 0
        var hasSecond = false
        for token in tokens[open...] {
            switch token.kind {
            case .leftParen: depth += 1
            case .rightParen:
                depth -= 1
                guard depth == 0 else { continue }
                let range = tokens[open].range.upperBound..<token.range.lowerBound
                return range.isEmpty ? nil : (range, hasSecond)
            case .comma where depth == 1: hasSecond = true
            default: break
            }
        }
        return nil
    }

    /// Adds the second argument, the schema: `main` for `names`, whether or not `main` has such a table.
    func apply(to edits: inout SQLEdits, in outline: StatementOutline, ofMain names: some Sequence<String>) {
        let list = names.sorted().map(SQLLiteral.quoted).joined(separator: ", ")
        for range in arguments {
            edits.insert(
                ", CASE WHEN lower(\(outline.text(range))) IN (\(list)) THEN 'main' END",
                at: range.upperBound
            )
        }
    }
}
