internal import SQLiteC

/// The names of a result's columns, shared by its rows.
public final class ColumnNames: Sendable {
    /// The names, in order.
    public let names: [String]
    private let lookup: [ExactString: Int]

    init(_ names: [String]) {
        self.names = names
        var lookup: [ExactString: Int] = [:]
        for (index, name) in names.enumerated() {
            let key = ExactString(string: name)
            if lookup[key] == nil { lookup[key] = index }
        }
        self.lookup = lookup
    }

    /// The index of the first column whose name is exactly this one, or else equals it without regard to the case of
    /// ASCII letters.
    public func index(of name: String) -> Int? {
        if let index = lookup[ExactString(string: name)] { return index }
        return names.firstIndex { sqlite3_stricmp($0, name) == 0 }
    }

    /// The error's message about a name that no column has.
    func missing(_ name: String) -> String {
        let most = 20
        let known = names.prefix(most).joined(separator: ", ") + (names.count > most ? ", …" : "")
        return "no column is named \(name); the row has \(names.isEmpty ? "no columns" : known)"
    }
}
