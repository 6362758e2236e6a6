/// How far the migrations of a database have come.
public struct MigrationProgress: Sendable, Hashable {
    /// One table's part.
    public struct Table: Sendable, Hashable {
        /// The target's table.
        public var name: String
        /// The source's table.
        public var sourceTable: String
        /// The source's file; `nil` when it is the target's own.
        public var sourcePath: String?
        /// Which rows of the source belong; `nil` for all.
        public var condition: String?
        /// How far it has come.
        public var phase: MigrationPhase
        /// Whether its rows return to the source, since the migration was cancelled.
        public var isReturning: Bool
        /// The table of another file that has taken this move over with the table itself, in words, as `table messages of
        /// archive.db`; `nil` where there is none. Then only that file's steps make progress.
        public var movesOnTo: String?
        /// Rows that are in the target for good, were deleted since, or set aside. They become fewer while rows return. Of a table that
        /// is built beside the live one, and comes in one go, it is the share of the work that is done, in rows.
        public var movedRows: Int64
        /// Rows that belong; `nil` until the first steps have counted them.
        public var totalRows: Int64?
        /// The target's table that has the rows which were set aside: a column `midstream_reason`, a column
        /// `midstream_rowid`, and those of the source. `nil` where there are none. It stays when all has moved; drop it when
        /// it is of no more use.
        public var refusedRowsTable: String?
        /// The target's table that has the keys which could not be read and were left out: the columns `first_rowid` and
        /// `last_rowid` of each range, and `reason`. For a table without rowids, whose PRIMARY KEY has a column `k`, it has
        /// `key_k` for a row in the place of these, and `after_k` and `before_k` for what lies between two others. `nil`
        /// where there are none. It stays when all else has moved.
        public var unreadableRowsTable: String?
        /// Why its rows do not move on, where the last step has failed on it; `nil` while they do.
        public var stop: MigrationStop?
        /// Rows that are in the source alone; `nil` while ``totalRows`` is.
        public var pendingRows: Int64? { totalRows.map { max(0, $0 - movedRows) } }
    }

    /// What the last step did.
    public enum Outcome: String, Sendable, Hashable {
        /// Nothing was asked, or there was nothing to do.
        case idle
        /// It moved rows, counted them, or brought a table into its next phase.
        case worked
        /// Somebody wrote the target all the while, what is left is another file's to move (``Table/movesOnTo``), or tables
        /// have yet to begin, which another process may be at. Nothing was done; the next step may.
        case busy
        /// All rows of a table have moved, and a reader still has a snapshot from before; or all has moved, and somebody has
        /// a source's file open that is to be deleted, which is waited for for 2 s. The next steps try again.
        case waitingForReaders
        /// The step has failed, with the error that it throws: see ``Table/stop``. Others may have moved rows before it failed.
        case failed
    }

    /// The tables whose migrations are stored in the file. One that is done stays until all are; then there are none.
    public var tables: [Table]
    /// What the last step did.
    public var outcome: Outcome
    /// The rows that the last step moved.
    public var rowsMovedByStep: Int64

    /// Whether nothing is left to do: every table has moved, and its source is retired.
    public var isFinished: Bool { hasMoved && outcome != .waitingForReaders && outcome != .failed }
    private var hasMoved: Bool { tables.allSatisfy { $0.phase == .done } }
    /// Rows that have moved, of all ``tables``.
    public var movedRows: Int64 { tables.reduce(0) { $0 + $1.movedRows } }
    /// Rows in all, of all ``tables``; `nil` until they are counted.
    public var totalRows: Int64? {
        tables.reduce(0) { sum, table in sum.flatMap { sum in table.totalRows.map { sum + $0 } } }
    }
    /// From 0 to 1; 0 until the rows are counted, 1 when nothing is left.
    public var fraction: Double {
        if hasMoved { return 1 }
        guard let total = totalRows, total > 0 else { return 0 }
        return min(1, Double(movedRows) / Double(total))
    }
}

/// What happens in the course of a migration.
public enum MigrationEvent: Sendable {
    /// A table has moved, and its source is retired.
    case tableMoved(String)
    /// All tables have moved, or returned. The database is native SQLite again.
    case databaseMoved
    /// A table's rows were all moved at once, since that statement needs them in one place.
    case drained(tables: [String], sql: String)
    /// The target did not take so many rows of a table, and they were set aside: see ``RefusedRowPolicy/setAside``.
    case rowsSetAside(table: String, count: Int64)
    /// Rows of the source with those keys cannot be read, and were left out: see ``UnreadableRowPolicy/skip``.
    case rowsSkipped(table: String, keys: UnreadableKeys)
    /// A table's migration was cancelled, and all of its rows are back in the source, which may be written there again.
    case tableReturned(String)
    /// A source table stays although its rows have moved, for that reason. The path is that of its file; `nil` for the target's
    /// own.
    case sourceKept(table: String, path: String?, reason: String)
    /// A source table that had stayed when its rows had moved was dropped by a later call. The path is that of its file.
    case sourceDropped(table: String, path: String?)
    /// A source's file was to be deleted, and stays, for that reason.
    case sourceFileKept(path: String, reason: String)
    /// A step failed. Nothing is lost; later steps try again.
    case failed(MigrationError)
}

/// How fast auto migration goes: how much time steps may take, and how often.
public struct MigrationPace: Sendable, Hashable {
    /// The time that the steps of one interval may take together, their commits included.
    public var budget: Duration
    /// The time from the beginning of one interval's steps to that of the next one's.
    public var interval: Duration

    /// Makes a pace.
    public init(budget: Duration, interval: Duration) {
        self.budget = budget
        self.interval = interval
    }

    /// 10 ms of work each 2 s: nobody notices.
    public static let gentle = MigrationPace(budget: .milliseconds(10), interval: .seconds(2))
    /// 10 ms of work each 100 ms.
    public static let steady = MigrationPace(budget: .milliseconds(10), interval: .milliseconds(100))
    /// 10 ms of work each 15 ms: about as fast as it goes without writers having to wait long.
    public static let fast = MigrationPace(budget: .milliseconds(10), interval: .milliseconds(15))
}
