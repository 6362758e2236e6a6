/// How far the migrations of a database have come.
public struct MigrationProgress: Sendable, Hashable {
    /// The progress of one table.
    public struct Table: Sendable, Hashable {
        /// The target's table.
        public var name: String
        /// The source's table.
        public var sourceTable: String
        /// The source's file; `nil` if the source is the target's own file.
        public var sourcePath: String?
        /// The condition that rows of the source meet which belong to the migration; `nil` for all rows.
        public var condition: String?
        /// How far the table has come.
        public var phase: MigrationPhase
        /// Whether the table's rows return to the source, since the migration was cancelled.
        public var isReturning: Bool
        /// If another file has taken this move over together with the table: that file's table, in words, such as `table messages
        /// of archive.db`. Then only steps of that file make progress. `nil` if no file has.
        public var movesOnTo: String?
        /// The rows that are in the target for good, were deleted since, or were set aside. The number falls while rows return. A
        /// table that is built beside the live one comes all at once; until then, the number is the share of the work that is done,
        /// in rows.
        public var movedRows: Int64
        /// The rows of the source that belong to the migration; `nil` until the first steps have counted them.
        public var totalRows: Int64?
        /// The target's table of the rows that were set aside; `nil` if there are none. It has the columns `midstream_reason` and
        /// `midstream_rowid`, and those of the source. It stays when all rows have moved; drop it when it is no longer needed.
        public var refusedRowsTable: String?
        /// The target's table of the keys that could not be read and were left out; `nil` if there are none. It has the columns
        /// `first_rowid` and `last_rowid` of each range, and `reason`. For a table without rowids, each column `k` of the PRIMARY
        /// KEY has columns in the place of these two: `key_k` for a single row, and `after_k` and `before_k` for what lies between
        /// two other rows. The table stays when all other rows have moved.
        public var unreadableRowsTable: String?
        /// The error that keeps the table's rows from moving on, if the last step failed at this table; `nil` while they move.
        public var stop: MigrationStop?
        /// The rows that are only in the source; `nil` while ``totalRows`` is `nil`.
        public var pendingRows: Int64? { totalRows.map { max(0, $0 - movedRows) } }
    }

    /// What the last step did.
    public enum Outcome: String, Sendable, Hashable {
        /// No work was asked for, or there was none to do.
        case idle
        /// The step moved rows, counted them, or brought a table into its next phase.
        case worked
        /// The step did nothing; the next one may do something. Another connection was writing the target all the time; or the rest
        /// is for another file to move (``Table/movesOnTo``); or tables have yet to begin, and another process may be beginning
        /// them.
        case busy
        /// All rows of a table have moved, but a reader still has a snapshot from before. Or all tables have moved, but another
        /// connection has a source's file open that is to be deleted; steps wait for this for 2 s. The next steps try again.
        case waitingForReaders
        /// The step failed, and throws the error: see ``Table/stop``. Other tables may have moved rows before it failed.
        case failed
    }

    /// The tables whose migrations are stored in the file. A table that is done stays in this list until all tables are; then the
    /// list is empty.
    public var tables: [Table]
    /// What the last step did.
    public var outcome: Outcome
    /// The number of rows that the last step moved.
    public var rowsMovedByStep: Int64

    /// Whether nothing is left to do: every table has moved, and its source is retired.
    public var isFinished: Bool { hasMoved && outcome != .waitingForReaders && outcome != .failed }
    private var hasMoved: Bool { tables.allSatisfy { $0.phase == .done } }
    /// The rows that have moved, over all ``tables``.
    public var movedRows: Int64 { tables.reduce(0) { $0 + $1.movedRows } }
    /// The rows in total, over all ``tables``; `nil` until they are counted.
    public var totalRows: Int64? {
        tables.reduce(0) { sum, table in sum.flatMap { sum in table.totalRows.map { sum + $0 } } }
    }
    /// The share of the rows that has moved, from 0 to 1. It is 0 until the rows are counted, and 1 when nothing is left to do.
    public var fraction: Double {
        if hasMoved { return 1 }
        guard let total = totalRows, total > 0 else { return 0 }
        return min(1, Double(movedRows) / Double(total))
    }
}

/// What happens in the course of a migration.
public enum MigrationEvent: Sendable {
    /// A table has moved, and its source is retired. The value is the table's name.
    case tableMoved(String)
    /// All tables have moved, or returned. The database is native SQLite again.
    case databaseMoved
    /// The statement `sql` needs all rows of these tables in one place, so they were moved at once.
    case drained(tables: [String], sql: String)
    /// The target refused `count` rows of a table, and they were set aside: see ``RefusedRowPolicy/setAside``.
    case rowsSetAside(table: String, count: Int64)
    /// The source's rows with these keys cannot be read, and were left out: see ``UnreadableRowPolicy/skip``.
    case rowsSkipped(table: String, keys: UnreadableKeys)
    /// A table's migration was cancelled. All of the table's rows are back in the source, which may be written again.
    case tableReturned(String)
    /// A source table stays although its rows have moved. `reason` says why. `path` is the path of the table's file; `nil` for the
    /// target's own file.
    case sourceKept(table: String, path: String?, reason: String)
    /// A later call has dropped a source table that had stayed when its rows had moved. `path` is the path of the table's file.
    case sourceDropped(table: String, path: String?)
    /// A source's file was to be deleted, but stays. `reason` says why.
    case sourceFileKept(path: String, reason: String)
    /// A step failed. Nothing is lost; later steps try again.
    case failed(MigrationError)
}

/// The pace of auto migration: how much time its steps may take, and how often they come.
public struct MigrationPace: Sendable, Hashable {
    /// The time that all steps of one interval may take together, including their commits.
    public var budget: Duration
    /// The time from the beginning of one interval's steps to the beginning of the next interval's steps.
    public var interval: Duration

    /// Makes a pace.
    public init(budget: Duration, interval: Duration) {
        self.budget = budget
        self.interval = interval
    }

    /// 10 ms of work every 2 s: hardly noticeable.
    public static let gentle = MigrationPace(budget: .milliseconds(10), interval: .seconds(2))
    /// 10 ms of work every 100 ms.
    public static let steady = MigrationPace(budget: .milliseconds(10), interval: .milliseconds(100))
    /// 10 ms of work every 15 ms: about as fast as possible without making writers wait long.
    public static let fast = MigrationPace(budget: .milliseconds(10), interval: .milliseconds(15))
}
