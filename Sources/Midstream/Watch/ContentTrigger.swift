internal import SQLText

/// What a trigger on a moving table does with a full-text table whose content is the moving table.
///
/// To take a row out of the index, the full-text table reads the row's old values. The row that fires the trigger is in the
/// target; any other row may still be pending.
struct ContentTrigger {
    private let words: StatementWords
    /// The full-text table, in lower case.
    private let table: String
    /// The names of the moving table's key column by which a trigger can identify a row, in lower case.
    private let keys: Set<String>

    /// - Parameters:
    ///   - content: The schema of the table that the trigger is on, if the full-text table has its content there.
    ///   - reader: CREATE VIRTUAL TABLE of the full-text table.
    ///   - name: The full-text table's name in lower case.
    init(_ trigger: StatementOutline, on content: TableSchema?, reader: StatementOutline, _ name: String) {
        words = StatementWords(trigger)
        table = name
        keys = content.map { Self.keys(of: $0, namedBy: Self.option("content_rowid", of: reader)) } ?? []
    }

    /// The names of the column by which the full-text table looks for a row of the content. A column that is no rowid may have
    /// one of the rowid's names.
    private static func keys(of content: TableSchema, namedBy name: String?) -> Set<String> {
        func isRowID(_ name: String) -> Bool {
            content.columnIndex(name).map { $0 == content.rowIDColumn } ?? MappedColumns.isRowIDName(name)
        }
        if let name, !isRowID(name) { return [name] }
        let column = content.rowIDColumn.map { SQLIdentifier.lowercased(content.columns[$0].name) }
        return MappedColumns.rowIDNames.union(column.map { [$0] } ?? []).filter(isRowID)
    }

    /// The value of an option of a full-text table, in lower case.
    static func option(_ name: String, of table: StatementOutline) -> String? {
        let words = StatementWords(table)
        return words.tokens.indices.first { words[$0] == name && words[$0 + 1] == "=" }.map {
            SQLIdentifier.lowercased(words.name($0 + 2))
        }
    }

    /// Whether the trigger may take a row other than the one that fires it out of the index, or write such a row there.
    var writesOtherRows: Bool {
        words.tokens.indices.contains { place in
            switch (words[place], words[place + 1]) {
            case ("delete", "from") where name(place + 2) == table: !endsWithOwnRow(from: place + 2)
            case ("update", _) where isUpdated(from: place + 1): !endsWithOwnRow(from: place + 1)
            case ("into", _) where name(place + 1) == table && words[place - 1] == "replace":
                !hasValuesOfOwnRow(from: place + 1)
            default: false
            }
        }
    }

    /// Whether `[OR …] name` is at that place.
    private func isUpdated(from place: Int) -> Bool {
        name(words[place] == "or" ? place + 2 : place) == table
    }

    /// Whether the statement ends with `WHERE rowid = old.id` and has no other condition.
    private func endsWithOwnRow(from place: Int) -> Bool {
        guard let end = words.tokens.indices.first(where: { $0 > place && words[$0] == ";" }) else { return false }
        return words[end - 6] == "where" && Self.names.contains(name(end - 5)) && words[end - 4] == "="
            && isOwnRow(end - 3)
    }

    /// Whether the statement goes on with `(rowid, …) VALUES (new.id, …)` and has no other row.
    private func hasValuesOfOwnRow(from place: Int) -> Bool {
        guard words[place + 1] == "(", Self.names.contains(name(place + 2)),
            let end = words.tokens.indices.first(where: { $0 > place && words[$0] == ";" }),
            let values = (place..<end).first(where: { words[$0] == "values" }),
            words[values + 1] == "(", isOwnRow(values + 2), [",", ")"].contains(words[values + 5])
        else { return false }
        var depth = 0
        for token in values + 1..<end {
            if words[token] == "(" { depth += 1 }
            if words[token] == ")" { depth -= 1 }
            if depth == 0 { return token == end - 1 }
        }
        return false
    }

    /// Whether `old.id` or `new.id` is at that place.
    private func isOwnRow(_ place: Int) -> Bool {
        ["old", "new"].contains(name(place)) && words[place + 1] == "." && keys.contains(name(place + 2))
    }

    private func name(_ place: Int) -> String { SQLIdentifier.lowercased(words.name(place)) }

    /// The names of the rowid in a full-text table.
    private static let names = MappedColumns.rowIDNames.union(["docid"])
}
