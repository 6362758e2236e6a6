import Midstream

/// A table of a file.
struct LifePlace: Hashable, Sendable, CustomStringConvertible {
    var file: Int
    var table: String
    var description: String { "f\(file).\(table)" }
}

/// A move of a logical table that goes on.
struct LifeMove: Sendable {
    /// Where the rows came from; `nil` for a rebuilt table.
    var origin: LifePlace?
    var former: LifeShape
    /// What the columns were made of.
    var made: [String: LifeChange.Origin] = [:]
    var isReturning = false
    /// Which rows of the origin are its own.
    var condition: String?
    /// How many others the origin has.
    var strangers = 0
    /// The files that rows may be on their way from besides, by moves that go on.
    var earlier: Set<Int> = []

    /// What a table that moves elsewhere by another move has rows on their way from.
    static func files(of table: LifeTable) -> Set<Int> {
        table.move.map { $0.earlier.union([$0.origin?.file].compactMap(\.self)) } ?? []
    }

    /// The same, where the table has been rebuilt meanwhile.
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

    /// What the former columns are made of, when the rows return.
    var inverted: [String: LifeChange.Origin] {
        var inverted: [String: LifeChange.Origin] = [:]
        for (name, origin) in made {
            if case .column(let former) = origin { inverted[former] = .column(name) }
        }
        return inverted
    }

    /// Whether what the columns are made of can be turned round, so that rows of that shape return as they are.
    func isReversible(from shape: LifeShape) -> Bool {
        // The column that the rowid has taken the place of is in the source still.
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
    /// Whether the plain table has the same rowids where they are no column.
    var knowsRowIDs = true
    /// Whether the plain table gives the same keys under AUTOINCREMENT.
    var knowsSequence = true
    /// Whether rows that are refused are set aside.
    var setsAside = false
    /// Whether they are mended.
    var mends = false
    /// Which rows of the place are its own, where another table's are there too. It takes no writes then.
    var part: String?
    /// How many parts the place has.
    var parts = 1

    /// Whether rows that are refused by the shape that it has do not come as they are.
    var isMended: Bool { move != nil && (setsAside || mends) }

    /// What its plain table is called.
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
        /// The columns that the application has be NULL in rows that are refused.
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
    /// Whether it has others of its own.
    var hasStrangers = false
}

/// All that a life knows of its files, besides what they hold.
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
