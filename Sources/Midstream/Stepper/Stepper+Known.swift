extension Stepper {
    /// What a stepper has read of the files, and when. It is read again once it may no longer be true.
    struct Known {
        /// The SQL of moves, by the tables' ids.
        var moves: [Int64: MoveSQL] = [:]
        /// The target's schema version that ``moves`` were made for. Another connection may change a table's shape.
        var version: Int64?
        /// The schema version at which no note was found that the file is being made as a copy of a whole file.
        var finishedVersion: Int64?
        /// The sources' tables as they were when steps began to take rows from them, by the records' ids.
        var sources: [Int64: KnownSource] = [:]
        /// The stored state as it was last read, and the moment at which it was read.
        var loaded: (moment: Moment, state: (migrations: [MigrationRecord], tables: [TableRecord]))?
        /// By the tables' ids, the number of entries of the ledger, and the moment at which they were counted.
        var ledgers: [Int64: (moment: LedgerMoment, count: Int64)] = [:]

        /// The moment at which the stored state was read. Commits of other connections change `data`, those of this connection
        /// `changes`.
        ///
        /// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
        struct Moment: Equatable {
            var data: Int64?
            var changes: Int64
            var schema: Int64
        }

        /// The moment at which a ledger's entries were counted. Steps change a ledger only together with the other figures here.
        struct LedgerMoment: Equatable {
            var data: Int64?
            var watermark: Int64?
            var copied: Int64
            var settled: Int64
        }
    }
}
