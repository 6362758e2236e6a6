internal import SQLText
internal import SQLiteConnection

/// A migration, as stored in the target. A migration has one source.
struct MigrationRecord: Hashable, Sendable {
    /// Never used twice, so that a connection that was idle for long cannot mistake one migration for another.
    var id: Int64
    /// The source's path relative to the target's folder; `nil` when the source is the target itself.
    var sourcePath: String?
    /// Whether the source's file is deleted when nothing is left in it: this was asked for with all of the migration's tables. It
    /// is not stored, but derived from the tables' records.
    var deletesFile = false
    /// What the source has that may be lost with it: see `Remainder`.
    var givenUp: Set<String> = []

    /// Whether `path` is the source's path. Bytes are compared, since two files may have different names that are equal to Swift.
    func hasSource(_ path: String?) -> Bool {
        sourcePath.map(ExactString.init(string:)) == path.map(ExactString.init(string:))
    }

    /// The schema under which connections attach the source.
    var schema: String { sourcePath == nil ? "main" : Self.schemaPrefix + "\(id)" }
    static let schemaPrefix = "midstream_source_"

    /// The qualified name of a table of the source, for SQL.
    func name(of table: String) -> String { "\(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(table))" }

    /// The path of the source's file, given the target's path; `nil` when the source is the target itself.
    func path(fromFolderOf target: String) -> String? {
        sourcePath.map { FilePath.absolute($0, fromFolderOf: target) }
    }
}

/// A moving table as stored in the target.
///
/// It has more than 15 stored properties: one for each column of `midstream_tables`.
struct TableRecord: Hashable, Sendable {
    var id: Int64
    var migration: Int64
    var target: String
    var source: String
    var condition: String?
    /// The target's columns that take something other than the source's column of the same name.
    var columns: [ColumnRecord] = []
    var phase: MigrationPhase
    /// The largest rowid that the stepper has passed; `nil` before the first one. If the key is not the rowid, 0 stands for the key
    /// in ``watermarkTable``. The largest possible number means that the stepper has passed all rows.
    var watermark: Int64?
    /// No pending row has a larger key; `nil` when that is not known.
    var ceiling: Int64?
    /// How many rows the stepper has copied.
    var copied: Int64
    /// How many rows statements promoted that the stepper has since passed.
    var settled: Int64
    /// How many rows of the source belong to the migration; `nil` until they are counted.
    var total: Int64?
    /// The sum of the hashes of all rows that the stepper has passed, if ``verification`` asks for it.
    var checksum: Int64 = 0
    var verification = MigrationVerification.batches
    /// What becomes of the source's table.
    var retirement = SourceRetirement.keep
    var refusedRows = RefusedRowPolicy.Stored.stop
    /// The table of the rows that were set aside; `nil` while there are none.
    var refusedRowsTable: String?
    /// How far the return of the table's rows to the source has come: see `Undo`. `nil` while the rows move to the target.
    var undoStage: Int64?
    /// Whether rows that come into the target fire its triggers for INSERT.
    var firesTriggers = false
    var unreadableRows = UnreadableRowPolicy.stop
    /// The table of the rowids that could not be read and were left out; `nil` while there are none.
    var unreadableRowsTable: String?

    /// While rows are to come: the table of another file that has taken this move over, in words. Nothing is written in this file
    /// any more then. Only `StateStore.load` sets it, from that file's claim on the target's table; it is not stored.
    var destination: String?

    /// Why the table's rows do not move on; `nil` while they do. `Stops` stores it, and only `StateStore.load` sets it.
    var stop: MigrationStop?

    /// The SQL that the application gave on the source's rows: the condition, and the expressions that columns are made of.
    var expressions: [String] {
        [condition].compactMap(\.self)
            + columns.compactMap { if case .expression(let text) = $0.origin { text } else { nil } }
    }

    /// The prefix of the names of backups: the former shapes of tables that are rebuilt.
    static let backupPrefix = OwnNames.prefix + "backup_"
    /// Whether the source is the former shape of the target.
    var isRebuild: Bool { source.hasPrefix(Self.backupPrefix) }
    /// The name of the ledger's table.
    var ledger: String { "midstream_ledger_\(id)" }
    /// The name of the table that has the watermark, if the key is not the rowid.
    var watermarkTable: String { "midstream_watermark_\(id)" }
    /// The name of the table of the keys whose rows are being brought back to the source.
    var returningTable: String { "midstream_returning_\(id)" }
    /// Whether the move is this file's: no other file has taken it over.
    var isOwn: Bool { destination == nil }
}

enum LowerBound {
    /// The smallest key above the watermark; `nil` if there can be none.
    static func after(_ watermark: Int64?) -> Int64? {
        guard let watermark else { return .min }
        return watermark == .max ? nil : watermark + 1
    }
}

/// What becomes of a source table when its rows have moved.
public enum SourceRetirement: String, Sendable, Codable {
    /// Midstream drops the table and puts a view in its place. The view refuses writes, so that old builds do not write into a
    /// void. The table stays if it has triggers that the target does not have, unless they are given up.
    case drop
    /// The table stays, and refuses writes.
    case keep
    /// Midstream drops the table. When the file has nothing left that the target does not have, Midstream deletes the file. A table
    /// that is left keeps the file. So does a view, a trigger, a virtual table, a `user_version` or an `application_id` that the
    /// target lacks, unless it is given up: ``MigrationEvent/sourceFileKept(path:reason:)``.
    case deleteFileWhenEmpty
}
