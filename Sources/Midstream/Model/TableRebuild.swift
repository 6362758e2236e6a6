internal import SQLText

/// What a table is to become, for the closure of ``DatabaseAccess/rebuild(_:_:)`` to fill in.
public struct TableRebuild: Sendable {
    /// The table.
    public let name: String
    /// The CREATE TABLE of its new shape, with the same name. At first that of the present one.
    public var schema: String
    /// The CREATE INDEX of each of its indexes. At first the present ones.
    public var indexes: [String]
    /// The CREATE TRIGGER of each of its triggers. At first the present ones.
    public var triggers: [String]
    /// What the new columns are made of, by their names, where it is not the present column of the same name: see
    /// ``TableMigration/columns``.
    public var columns: [String: ColumnMapping] = [:]
    /// What becomes of columns that only one of the two shapes has, and that ``columns`` does not name.
    public var unmatchedColumns = UnmatchedColumns.refused
    /// What becomes of rows that the new shape does not take: ``RefusedRowPolicy/stop`` or ``RefusedRowPolicy/setAside``. Rows
    /// that are copied at once must all fit.
    public var refusedRows = RefusedRowPolicy.stop
    /// How it is made sure that the new shape has what the present one has.
    public var verification = MigrationVerification.batches
    /// A table of at most so many rows, and as many kilobytes, is copied at once: about what a step of 10 ms moves. Where rows may
    /// be set aside, it moves.
    public var rowsCopiedAtOnce = 1000

    init(name: String, schema: String, indexes: [String], triggers: [String]) {
        self.name = name
        self.schema = schema
        self.indexes = indexes
        self.triggers = triggers
    }

    /// How its rows are matched.
    var migration: TableMigration {
        var migration = TableMigration(name: name)
        // The table has another name then.
        migration.columns = columns.mapValues { $0.withoutQualifiers([name]) }
        migration.unmatchedColumns = unmatchedColumns
        migration.refusedRows = refusedRows
        migration.verification = verification
        return migration
    }
}

extension ColumnMapping {
    /// The same without a table's names before columns.
    func withoutQualifiers(_ names: [String]) -> ColumnMapping {
        guard case .expression(let text) = self else { return self }
        var edits = SQLEdits()
        for range in names.flatMap({ TableQualifiers.ranges(of: $0, in: text) }) { edits.remove(range) }
        return .expression((try? edits.apply(to: text)) ?? text)
    }
}

/// How a table got another shape.
public struct RebuiltTable: Sendable, Hashable {
    /// The ways for rows to come into the new shape.
    public enum Way: Sendable, Hashable {
        /// They move in steps, from the commit on.
        case online
        /// They were copied in the transaction.
        case atOnce
    }

    /// The table.
    public var name: String
    /// How its rows come into the new shape.
    public var way: Way
    /// Why more rows were copied at once than ``TableRebuild/rowsCopiedAtOnce`` says; `nil` where they were not.
    public var reason: String?
}
