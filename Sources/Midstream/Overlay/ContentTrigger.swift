internal import SQLText

/// What a trigger on a moving table does with a full-text table that has its content there.
///
/// To take a row out of the index, its old values are read. The row that fires the trigger is in the target; any other may not be.
struct ContentTrigger {
    private let words: StatementWords
    /// The full-text table, in lower case.
    private let name: String
    /// What a row is called by in the moving table, in lower case.
    private let keys: Set<String>

    /// - Parameters:
    ///   - reader: CREATE VIRTUAL TABLE of the full-text table.
    ///   - name: Its name in lower case.
    ///   - table: The table that the trigger is on.
    ///   - isOfView: Whether the content is a view's: no row of that is known to be there.
    init(
        _ trigger: StatementOutline,
        on table: TableSchema,
        reader: StatementOutline,
        _ name: String,
        isOfView: Bool
    ) {
        words = StatementWords(trigger)
        self.name = name
        let rowIDs = MappedColumns.rowIDNames.union(
            table.rowIDColumn.map { [SQLIdentifier.lowercased(table.columns[$0].name)] } ?? []
        )
        let option = Self.contentRowID(reader) ?? "rowid"
        keys = isOfView ? [] : rowIDs.contains(option) ? rowIDs : [option]
    }

    /// The column of the content by which rows are found, in lower case, where one is named.
    private static func contentRowID(_ reader: StatementOutline) -> String? {
        let words = StatementWords(reader)
        guard let option = words.tokens.indices.first(where: { words[$0] == "content_rowid" && words[$0 + 1] == "=" })
        else { return nil }
        return words.name(option + 2)
    }

    /// Whether it may take other rows out of the index than the one that fires it, or have others written there.
    var writesOtherRows: Bool {
        words.tokens.indices.contains { place in
            switch (words[place], words[place + 1]) {
            case ("delete", "from") where words.name(place + 2) == name: !endsWithOwnRow(from: place + 2)
            case ("update", _) where isUpdated(from: place + 1): !endsWithOwnRow(from: place + 1)
            case ("into", _) where words.name(place + 1) == name && words[place - 1] == "replace":
                !hasValuesOfOwnRow(from: place + 1)
            default: false
            }
        }
    }

    /// Whether `[OR …] name` stands there.
    private func isUpdated(from place: Int) -> Bool {
        words.name(words[place] == "or" ? place + 2 : place) == name
    }

    /// Whether a statement ends with `WHERE rowid = old.id`, and has no other condition.
    private func endsWithOwnRow(from place: Int) -> Bool {
        guard let end = words.tokens.indices.first(where: { $0 > place && words[$0] == ";" }) else { return false }
        return words[end - 6] == "where" && Self.names.contains(words.name(end - 5)) && words[end - 4] == "="
            && isOwnRow(end - 3)
    }

    /// Whether a statement goes on with `(rowid, …) VALUES (new.id, …)`, and has no other row.
    private func hasValuesOfOwnRow(from place: Int) -> Bool {
        guard words[place + 1] == "(", Self.names.contains(words.name(place + 2)),
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

    /// Whether `old.id` or `new.id` stands there.
    private func isOwnRow(_ place: Int) -> Bool {
        ["old", "new"].contains(words.name(place)) && words[place + 1] == "." && keys.contains(words.name(place + 2))
    }

    /// What a row is called by in a full-text table.
    private static let names = MappedColumns.rowIDNames.union(["docid"])
}

extension StatementWords {
    /// A token that is a name, in lower case and without quotes.
    fileprivate func name(_ index: Int) -> String {
        tokens.indices.contains(index) ? SQLIdentifier.lowercased(SQLIdentifier.unquoted(text(index...index))) : ""
    }
}
