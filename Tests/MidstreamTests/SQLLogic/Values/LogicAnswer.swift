/// What came of a record.
enum LogicAnswer: Equatable, Sendable {
    case success
    /// With the values that it gave before it failed; `nil` where it could not even be prepared.
    case failure(message: String, values: [String]? = nil)
    /// In the order that the record asks for.
    case values([String])
    case wrongColumns(count: Int)

    /// Sorts a result as the query asks.
    static func values(_ rows: [[String]], _ sort: LogicRecord.Sort) -> LogicAnswer {
        switch sort {
        case .nosort: .values(rows.flatMap(\.self))
        case .valuesort: .values(rows.flatMap(\.self).sorted())
        case .rowsort: .values(rows.sorted { $0.lexicographicallyPrecedes($1) }.flatMap(\.self))
        }
    }

    /// Whether it is what the record expects.
    func meets(_ expectation: LogicRecord.Expectation) -> Bool {
        switch (expectation, self) {
        case (.success, .success), (.failure, .failure): true
        // Upstream's runner takes a query that fails as it runs for one that has ended.
        case (.query(let query), .values(let values)), (.query(let query), .failure(_, let values?)):
            switch query.expected {
            case nil: true
            case .list(let list): list == values
            case .hash(let count, let md5): count == values.count && md5 == Self.md5(values)
            }
        default: false
        }
    }

    /// The hash of values, each followed by the end of a line.
    static func md5(_ values: [String]) -> String {
        var digest = MD5()
        for value in values {
            digest.update(value.utf8)
            digest.update(CollectionOfOne(0x0a))
        }
        return digest.finish()
    }

    /// The same in little space, to compare with later.
    var digest: String {
        switch self {
        case .values(let values) where values.count > 8: "\(values.count) values hashing to \(Self.md5(values))"
        default: description
        }
    }
}

extension LogicAnswer: CustomStringConvertible {
    var description: String {
        switch self {
        case .success: return "ok"
        case .failure(let message, _): return "error: \(message)"
        case .wrongColumns(let count): return "\(count) columns"
        case .values(let values):
            let shown = values.prefix(40).joined(separator: " | ")
            return values.count <= 40
                ? "values: \(shown)" : "values: \(shown) | … (\(values.count), hashing to \(Self.md5(values)))"
        }
    }
}

extension LogicRecord.Expectation: CustomStringConvertible {
    var description: String {
        switch self {
        case .success: "ok"
        case .failure: "error"
        case .query(let query):
            switch query.expected {
            case nil: "\(query.types.utf8.count) columns"
            case .list(let values): LogicAnswer.values(values).description
            case .hash(let count, let md5): "\(count) values hashing to \(md5)"
            }
        }
    }
}
