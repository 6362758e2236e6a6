internal import SQLText

/// The tables whose writes could act on a moving table, or be checked against one, because of foreign keys. The keys may connect
/// them through other tables, since one action may fire the next.
struct ForeignKeyTies {
    private var tied: [String: Set<Int64>] = [:]
    /// For each moving table: the tables that foreign keys connect with it, directly or through others, by their names in lower
    /// case.
    private(set) var groups: Set<Set<String>> = []

    init() {}

    /// - Parameters:
    ///   - reader: Reads the target's schema.
    ///   - moving: The moving tables, by their names in lower case.
    init(_ reader: SchemaReader, moving: [String: MovingTable]) throws {
        guard !moving.isEmpty else { return }
        let neighbors = try reader.foreignKeyNeighbors()
        for (name, table) in moving {
            var reached: Set<String> = []
            var open = neighbors[name] == nil ? [] : [name]
            while let next = open.popLast() {
                guard reached.insert(next).inserted else { continue }
                open += neighbors[next] ?? []
            }
            for other in reached { tied[other, default: []].insert(table.id) }
            if !reached.isEmpty { groups.insert(reached) }
        }
    }

    /// Whether there are no foreign keys on or to moving tables.
    var isEmpty: Bool { tied.isEmpty }

    /// The moving tables that foreign keys connect with a table, including those that the open transaction has drained.
    func tables(of name: String) -> Set<Int64> {
        tied[SQLIdentifier.lowercased(name)] ?? []
    }
}
