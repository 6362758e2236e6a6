internal import Midstream
internal import SQLText

/// What has moved so far, table by table. A table that is done disappears from the progress, but stays here.
struct MoveTally {
    struct Table {
        var progress: MigrationProgress.Table
        var isDone = false
        /// Whether the target no longer knows the table, although it was not seen to be done.
        var isGone = false
        /// Why the source table stays; `nil` if it has been dropped, or is yet to be dropped.
        var keptBecause: String?
    }

    private(set) var tables: [Table] = []
    /// The positions of the moves in `tables`.
    private var positions: [Move: Int] = [:]
    /// How many rows the steps have moved.
    private(set) var moved: Int64 = 0

    /// What the last step did.
    private(set) var outcome = MigrationProgress.Outcome.idle

    /// Counts the rows of those tables for which no step has counted them yet.
    init(_ progress: MigrationProgress, target: String, keys: FileKeys = FileKeys()) {
        var progress = progress
        var count = RowCount(target: target, keys: keys)
        for index in progress.tables.indices {
            progress.tables[index].totalRows = count.rows(of: progress.tables[index])
        }
        add(progress)
    }

    mutating func add(_ progress: MigrationProgress) {
        moved += progress.rowsMovedByStep
        outcome = progress.outcome
        var current: [Int: MigrationProgress.Table] = [:]
        for table in progress.tables {
            let move = Move(table)
            if let index = positions[move] {
                let total = tables[index].progress.totalRows
                tables[index].progress = table
                if table.totalRows == nil { tables[index].progress.totalRows = total }
                if current[index] == nil { current[index] = table }
            } else {
                positions[move] = tables.count
                current[tables.count] = table
                tables.append(Table(progress: table))
            }
        }
        for index in tables.indices {
            tables[index].isGone = current[index] == nil && tables[index].progress.phase != .done
            tables[index].isDone = current[index]?.phase ?? .done == .done
        }
    }

    /// Distinguishes a move from all others, at any time.
    private struct Move: Hashable {
        var name: String
        var sourceTable: String
        var sourcePath: String?

        init(_ table: MigrationProgress.Table) {
            (name, sourceTable, sourcePath) = (table.name, table.sourceTable, table.sourcePath)
        }
    }

    /// - Parameter path: The path of the source table's file; `nil` for the target's own file.
    mutating func noteKept(sourceTable: String, of path: String?, because reason: String) {
        for index in tables.indices {
            let table = tables[index].progress
            guard SQLIdentifier.equal(table.sourceTable, sourceTable),
                Self.isSameFile(table.sourcePath, path)
            else {
                continue
            }
            tables[index].keptBecause = reason
        }
    }

    /// Whether both paths lead to the same file, or neither is given. A path may lead to the file through links, or may
    /// lead nowhere any more.
    private static func isSameFile(_ first: String?, _ second: String?) -> Bool {
        guard let first, let second else { return first == nil && second == nil }
        return first == second || Files.areSame(first, second)
    }

    var isFinished: Bool { tables.allSatisfy(\.isDone) }

    /// How many rows are in the target for good.
    var settledRows: Int64 {
        tables.reduce(0) { $0 + ($1.isDone ? $1.progress.totalRows ?? $1.progress.movedRows : $1.progress.movedRows) }
    }

    /// The number of all rows; `nil` until the rows of every table are counted.
    var totalRows: Int64? {
        tables.reduce(0) { sum, table in sum.flatMap { sum in table.progress.totalRows.map { sum + $0 } } }
    }

    /// The share of the rows that are in the target, from 0 to 1; `nil` while rows are being counted.
    var fraction: Double? {
        if isFinished { return 1 }
        guard let total = totalRows else { return nil }
        return total == 0 ? 1 : min(1, Double(settledRows) / Double(total))
    }
}
