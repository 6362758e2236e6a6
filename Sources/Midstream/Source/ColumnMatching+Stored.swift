internal import SQLText
internal import SQLiteConnection

// Checks whether a table that already moves is asked for with other columns than it began with.
extension ColumnMatching {
    /// A column that is asked for with something else than it began with.
    struct Difference {
        let column: String
        let stored: String
        let asked: String
    }

    /// The first column that is asked for differently.
    ///
    /// - Parameter records: The stored column records of the move.
    /// - Returns: `nil` if no column is asked for differently, as far as that can be told.
    func difference(from records: [ColumnRecord]) throws -> Difference? {
        for (name, mapping) in wish.columns.sorted(by: { $0.key < $1.key }) {
            let record = records.first { SQLIdentifier.equal($0.name, name) && $0.origin != .left }
            // A column that simply takes the source's column of its name is not stored.
            let stored = record?.origin ?? .column(name)
            guard try !isSame(mapping, stored, name) else { continue }
            return Difference(column: name, stored: Self.words(stored), asked: Self.words(mapping))
        }
        let isGiven = { (name: String) in wish.columns.keys.contains { SQLIdentifier.equal($0, name) } }
        for record in records where !isGiven(record.name) {
            guard let index = target.columnIndex(record.name), target.columns[index].generation == nil else { continue }
            let isPlain = source.columnIndex(record.name) != nil
            if !isPlain, wish.unmatchedColumns == .ignored, try isSame(.defaultValue, record.origin, record.name) {
                continue
            }
            return Difference(
                column: record.name,
                stored: Self.words(record.origin),
                asked: isPlain ? "column \(record.name)" : wish.unmatchedColumns == .ignored ? "its default" : "nothing"
            )
        }
        return nil
    }

    /// A column of the source that was to be ignored when the move began, and is not now. The target has no column of its name, and
    /// no other column is made of it.
    func ignoredBefore(in records: [ColumnRecord]) -> String? {
        guard wish.unmatchedColumns == .refused else { return nil }
        var taken: Set<String> = []
        for record in records {
            switch record.origin {
            case .column(let name): taken.insert(SQLIdentifier.lowercased(name))
            case .expression(let text): taken.formUnion(ExpressionShape.columnNames(in: text))
            case .left: break
            }
        }
        return records.first { record in
            record.origin == .left && source.hasColumn(record.name)
                && !taken.contains(SQLIdentifier.lowercased(record.name))
        }?.name
    }

    private func isSame(_ mapping: ColumnMapping, _ stored: ColumnRecord.Origin, _ column: String) throws -> Bool {
        switch (mapping, stored) {
        case (.column(let name), .column(let other)):
            return SQLIdentifier.equal(source.ownName(name), source.ownName(other))
        case (.expression(let text), .expression(let other)):
            return CreateTable.words(text).hasSameBytes(as: CreateTable.words(other))
        case (.value(let value), .expression(let other)): return try literal(value).hasSameBytes(as: other)
        case (.defaultValue, _):
            guard let index = target.columnIndex(column) else { return true }
            if index == target.rowIDColumn { return stored != .left }
            guard case .expression(let other) = stored else { return false }
            // A default that was the present time then is another time now.
            let isTime = target.columns[index].defaultValue.map { ConnectionTerms($0, of: source).hasTime } ?? false
            return try isTime || defaultLiteral(of: target.columns[index]).hasSameBytes(as: other)
        default: return false
        }
    }

    static func words(_ origin: ColumnRecord.Origin) -> String {
        switch origin {
        case .column(let name): "column \(name)"
        case .expression(let text): text
        case .left: "nothing"
        }
    }

    private static func words(_ mapping: ColumnMapping) -> String {
        switch mapping {
        case .column(let name): "column \(name)"
        case .expression(let text): text
        case .value: "a value"
        case .defaultValue: "its default"
        }
    }
}
