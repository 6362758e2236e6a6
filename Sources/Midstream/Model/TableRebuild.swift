internal import SQLText

/// The new shape of a table, for the closure of ``DatabaseAccess/rebuild(_:_:)`` to fill in.
public struct TableRebuild: Sendable {
    /// The table.
    public let name: String
    /// The CREATE TABLE of the new shape, with the same name. Initially that of the present shape.
    public var schema: String
    /// The CREATE INDEX of each of the table's indexes. Initially the present ones.
    public var indexes: [String]
    /// The CREATE TRIGGER of each of the table's triggers. Initially the present ones.
    public var triggers: [String]
    /// What new columns are made of, by their names, where that is not the present column of the same name: see
    /// ``TableMigration/columns``.
    public var columns: [String: ColumnMapping] = [:]
    /// What becomes of columns that only one of the two shapes has, and that ``columns`` does not name.
    public var unmatchedColumns = UnmatchedColumns.refused
    /// What becomes of rows that the new shape refuses: ``RefusedRowPolicy/stop`` or ``RefusedRowPolicy/setAside``. If rows are
    /// copied at once, all of them must fit.
    public var refusedRows = RefusedRowPolicy.stop
    /// How Midstream checks that the new shape has what the present one has.
    public var verification = MigrationVerification.batches
    /// Midstream copies a table of at most this many rows, and as many kilobytes, at once: about what a step of 10 ms moves. If
    /// rows may be set aside, the table moves instead.
    public var rowsCopiedAtOnce = 1000

    init(name: String, schema: String, indexes: [String], triggers: [String]) {
        self.name = name
        self.schema = schema
        self.indexes = indexes
        self.triggers = triggers
    }

    /// The migration that matches the rows of the two shapes.
    var migration: TableMigration {
        var migration = TableMigration(name: name)
        // By the time that this is used, the present table has another name.
        migration.columns = columns.mapValues { $0.withoutQualifiers([name]) }
        migration.unmatchedColumns = unmatchedColumns
        migration.refusedRows = refusedRows
        migration.verification = verification
        return migration
    }
}

extension ColumnMapping {
    /// The mapping without these tables' names before columns.
    func withoutQualifiers(_ names: [String]) -> ColumnMapping {
        guard case .expression(let text) = self else { return self }
        var edits = SQLEdits()
        for range in names.flatMap({ TableQualifiers.ranges(of: $0, in: text) }) { edits.remove(range) }
        return .expression((try? edits.apply(to: text)) ?? text)
    }
}

/// How a table was rebuilt.
public struct RebuiltTable: Sendable, Hashable {
    /// The ways in which rows come into the new shape.
    public enum Way: Sendable, Hashable {
        /// The rows move in steps, after the commit.
        case online
        /// The rows were copied in the transaction of the rebuild.
        case atOnce
    }

    /// The table.
    public var name: String
    /// How the table's rows come into the new shape.
    public var way: Way
    /// Why more rows were copied at once than ``TableRebuild/rowsCopiedAtOnce`` allows; `nil` if that is not so.
    public var reason: String?
}
