internal import SQLText
internal import SQLiteConnection

/// A migration as stored in the target: one source.
struct MigrationRecord: Hashable, Sendable {
    /// Never used twice, so that a connection that slept cannot mistake one for another.
    var id: Int64
    /// The source's path as seen from the target's folder; `nil` when the source is the target itself.
    var sourcePath: String?
    /// Whether the source's file is deleted when nothing is left in it, as was asked for with all of its tables. It is not stored, but
    /// known by these.
    var deletesFile = false
    /// What of the source may be lost with it: see `Remainder`.
    var givenUp: Set<String> = []

    /// Whether that is its source's path. Files of names that are equal to Swift may be two.
    func hasSource(_ path: String?) -> Bool {
        sourcePath.map(ExactString.init(string:)) == path.map(ExactString.init(string:))
    }

    /// The schema under which connections attach the source.
    var schema: String { sourcePath == nil ? "main" : Self.schemaPrefix + "\(id)" }
    static let schemaPrefix = "midstream_source_"

    /// A table of the source, as SQL writes it.
    func name(of table: String) -> String { "\(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(table))" }

    /// Where the source's file is, seen from the target's path; `nil` when it is the target itself.
    func path(fromFolderOf target: String) -> String? {
        sourcePath.map { FilePath.absolute($0, fromFolderOf: target) }
    }
}

/// A moving table as stored in the target.
struct TableRecord: Hashable, Sendable {
    var id: Int64
    var migration: Int64
    var target: String
    var source: String
    var condition: String?
    /// What the target's columns take that is not the source's column of the same name.
    var columns: [ColumnRecord] = []
    var phase: MigrationPhase
    /// The largest rowid that the stepper has passed; `nil` before the first. Where the key is not the rowid, 0 stands for
    /// the one that ``watermarkTable`` has. The largest number of all: all have been passed.
    var watermark: Int64?
    /// No pending row has a larger key; `nil` when that is not known.
    var ceiling: Int64?
    /// Rows that the stepper moved.
    var copied: Int64
    /// Rows that statements promoted, and that the stepper has passed since.
    var settled: Int64
    /// Rows of the source that belong to the migration; `nil` until they are counted.
    var total: Int64?
    /// The sum of the hashes of all rows that have been passed, where ``verification`` asks for it.
    var checksum: Int64 = 0
    var verification = MigrationVerification.batches
    /// What becomes of the source's table.
    var retirement = SourceRetirement.keep
    var refusedRows = RefusedRowPolicy.Stored.stop
    /// Where rows are that were set aside; `nil` while there are none.
    var refusedRowsTable: String?
    /// How far its rows have come back to the source: see `Undo`. `nil` where they move on.
    var undoStage: Int64?
    /// Whether rows that come into the target fire its triggers for INSERT.
    var firesTriggers = false
    var unreadableRows = UnreadableRowPolicy.stop
    /// Where the rowids are that could not be read and were left out; `nil` while there are none.
    var unreadableRowsTable: String?

    /// The table of another file that has taken this move over, in words, while there are rows to come: then nothing is
    /// written here any more. It is not stored, but known by that file's claim on the target's table, and told by `StateStore.load` alone.
    var destination: String?

    /// Why its rows do not move on; `nil` where they do. `Stops` stores it, and `StateStore.load` alone tells it.
    var stop: MigrationStop?

    /// What the application has said of the source's rows: the condition, and what columns are made of.
    var expressions: [String] {
        [condition].compactMap(\.self)
            + columns.compactMap { if case .expression(let text) = $0.origin { text } else { nil } }
    }

    /// What the names of tables begin with that are the former shape of a table which is rebuilt.
    static let backupPrefix = OwnNames.prefix + "backup_"
    /// Whether its source is the former shape of its target.
    var isRebuild: Bool { source.hasPrefix(Self.backupPrefix) }
    /// The ledger's table.
    var ledger: String { "midstream_ledger_\(id)" }
    /// The table that keeps the key which the watermark stands for, where the key is not the rowid.
    var watermarkTable: String { "midstream_watermark_\(id)" }
    /// The table of the keys whose rows are being brought back to the source.
    var returningTable: String { "midstream_returning_\(id)" }
    /// Whether the stepper has passed all rows.
    var isPassed: Bool { watermark == .max }
    /// Whether rows go from the source to the target, and not back.
    var isMoving: Bool { phase == .copying && undoStage == nil }
    /// Whether its beginning was cut short, or the end of its cancellation.
    var isHalfBegun: Bool { phase == .starting || phase == .copied && undoStage != nil }
    /// Whether it is this file's, and not another's that has taken it over.
    var isOwn: Bool { destination == nil }
}

enum LowerBound {
    /// The smallest key above the watermark; `nil` when there is none.
    static func after(_ watermark: Int64?) -> Int64? {
        guard let watermark else { return .min }
        return watermark == .max ? nil : watermark + 1
    }
}

/// What becomes of a source table when its rows have moved.
public enum SourceRetirement: String, Sendable, Codable {
    /// It is dropped. A view that refuses writes takes its place, so that old builds do not write into a void. A table stays whose
    /// triggers the target does not have, unless they are given up.
    case drop
    /// It stays, and refuses writes.
    case keep
    /// It is dropped, and when nothing is left in the file that the target does not have, the file is deleted. A table that is left
    /// keeps the file, and so does a view, a trigger, a virtual table, a `user_version` or an `application_id` that the target lacks,
    /// unless it is given up: ``MigrationEvent/sourceFileKept(path:reason:)``.
    case deleteFileWhenEmpty
}
