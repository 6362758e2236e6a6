internal import SQLText

/// The tables whose writes could act on a moving table, or be checked against one, by a foreign key: near or far, since
/// an action may fire the next.
struct ForeignKeyTies {
    private var tied: [String: Set<Int64>] = [:]
    /// The tables that keys connect with each other, by their names in lower case: those of each group with a moving one.
    private(set) var groups: Set<Set<String>> = []

    init() {}

    /// - Parameters:
    ///   - reader: Of the target.
    ///   - moving: The moving tables by their names in lower case.
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

    /// The moving tables that a foreign key ties to that table, those that the open transaction has drained included.
    func tables(of name: String) -> Set<Int64> {
        tied[SQLIdentifier.lowercased(name)] ?? []
    }
}
