internal import SQLText
internal import SQLiteConnection

// Whether a table that moves already is asked for with other columns than it began with.
extension ColumnMatching {
    /// A column that began with something else than is asked for now.
    struct Difference {
        let column: String
        let stored: String
        let asked: String
    }

    /// - Parameter records: What is stored of the move.
    /// - Returns: `nil` where it is the same, or cannot be told.
    func difference(from records: [ColumnRecord]) throws -> Difference? {
        for (name, mapping) in wish.columns.sorted(by: { $0.key < $1.key }) {
            let record = records.first { SQLIdentifier.equal($0.name, name) && $0.origin != .left }
            // What is plain is not stored.
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

    /// A column of the source that was to be ignored, since the target has none of its name and nothing else is made of it, where that
    /// is not said now.
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
            // What was the present then is another time now.
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
