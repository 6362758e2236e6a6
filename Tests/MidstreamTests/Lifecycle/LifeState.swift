import Midstream

/// A table of a file.
struct LifePlace: Hashable, Sendable, CustomStringConvertible {
    var file: Int
    var table: String
    var description: String { "f\(file).\(table)" }
}

/// A move of a logical table that goes on.
struct LifeMove: Sendable {
    /// The place from which the rows came; `nil` for a rebuilt table.
    var origin: LifePlace?
    var former: LifeShape
    /// What the columns were made of. A column that is not here was made of the column of its name.
    var made: [String: LifeChange.Origin] = [:]
    var isReturning = false
    /// The condition of the origin's rows that move.
    var condition: String?
    /// How many rows of the origin do not move.
    var strangers = 0
    /// Other files from which rows may still be on their way, by earlier moves that go on.
    var earlier: Set<Int> = []

    /// The files from which rows may be on their way into a table that now moves elsewhere by another move.
    static func files(of table: LifeTable) -> Set<Int> {
        table.move.map { $0.earlier.union([$0.origin?.file].compactMap(\.self)) } ?? []
    }

    /// This move, after the table has been rebuilt meanwhile.
    func followed(by change: LifeChange) -> LifeMove {
        var move = self
        move.made = [:]
        for name in change.shape.columns.map(\.name) {
            let origin = change.made[name] ?? .column(name)
            if case .column(let middle) = origin {
                move.made[name] = made[middle] ?? origin
            } else {
                move.made[name] = origin
            }
        }
        if case .rowID? = change.made["id"] ?? made["id"] { move.made["id"] = .rowID }
        return move
    }

    /// What the former columns are made of when the rows return.
    var inverted: [String: LifeChange.Origin] {
        var inverted: [String: LifeChange.Origin] = [:]
        for (name, origin) in made {
            if case .column(let former) = origin { inverted[former] = .column(name) }
        }
        return inverted
    }

    /// Whether the mapping of the columns can be reversed, so that rows of that shape can return as they are.
    func isReversible(from shape: LifeShape) -> Bool {
        // The source still has the column in whose place the rowid came.
        if case .rowID? = made["id"] { return false }
        let origins = shape.columns.map { column in (column, made[column.name] ?? .column(column.name)) }
        return former.columns.allSatisfy { column in
            origins.contains { made, origin in
                if case .column(let name) = origin { name == column.name && made.type == column.type } else { false }
            }
        }
    }
}

/// A table as the application knows it, wherever its rows are.
struct LifeTable: Sendable {
    var id: Int
    var place: LifePlace
    var shape: LifeShape
    var move: LifeMove?
    /// Whether rows have the same rowids in the plain table, if the rowids are no column.
    var knowsRowIDs = true
    /// Whether AUTOINCREMENT gives the same keys in the plain table.
    var knowsSequence = true
    /// Whether rows that are refused are set aside.
    var setsAside = false
    /// Whether rows that are refused get other values from the application.
    var mends = false
    /// The condition of the table's own rows, if the place has rows of another table as well. Nobody writes the table
    /// then.
    var part: String?
    /// Into how many parts the place is split.
    var parts = 1

    /// Whether rows that the table's shape refuses do not come as they are.
    var isMended: Bool { move != nil && (setsAside || mends) }

    /// The name of the plain table.
    var plain: String { part == nil ? place.table : "part\(id)" }
}

/// A call of `addMigration`, as the application makes it at each launch.
struct LifeCall: Sendable {
    struct Entry: Sendable {
        var table: Int
        var target: String
        var source: String
        var condition: String?
        var change: LifeChange
        var verification = MigrationVerification.batches
        var setsAside = false
        /// The columns for which the application answers NULL if a row is refused.
        var mended: [String] = []
    }

    var target: Int
    var source: Int
    var retirement: SourceRetirement
    var entries: [Entry]
}

/// A table whose rows have moved away, and that was kept.
struct LifeKept: Sendable {
    var place: LifePlace
    var shape: LifeShape
    /// The file that has the rows.
    var target: Int
    /// Whether the table still has rows that did not move.
    var hasStrangers = false
}

/// All that a life knows about its files, apart from their content.
struct LifeState: Sendable {
    var tables: [LifeTable] = []
    var calls: [LifeCall] = []
    /// Tables whose rows have moved away, and that were kept: nobody may write them.
    var kept: [LifeKept] = []
    var names = 0
    var indexes = 0
    /// How many rows have been set aside in each file.
    var aside = [Int](repeating: 0, count: LifeWorld.fileCount)
    /// The folder that each file is in, by its number.
    var folders = [Int](repeating: 0, count: LifeWorld.fileCount)
}
