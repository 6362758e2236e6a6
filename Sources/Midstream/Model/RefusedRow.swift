public import SQLiteConnection

/// What becomes of a row that the target does not take: one that violates a constraint, or has a key that something else
/// has brought in.
public enum RefusedRowPolicy: Sendable {
    /// Its table stops with ``MigrationError/Code/rowRefused`` until the row is changed or deleted.
    case stop
    /// It is put aside into a table of the target's file that stays, with the reason, and the migration goes on. See
    /// ``MigrationProgress/Table/refusedRowsTable``.
    case setAside
    /// The application is asked, by the step that finds it. Where it cannot be, since the process has not called
    /// `addMigration` or a statement moves the rest of the table at once, the table stops.
    ///
    /// The closure is called within the step's transaction: it must not use the database.
    case ask(@Sendable (RefusedRow) -> RefusedRowDecision)

    /// Whether rows are put aside, which a move alone can do.
    var setsAside: Bool {
        if case .setAside = self { true } else { false }
    }
}

/// A row that the target does not take.
public struct RefusedRow: Sendable, Hashable {
    /// The target's table.
    public var table: String
    /// The source's table.
    public var sourceTable: String
    /// The rowid; `nil` where the target has none.
    public var rowID: Int64?
    /// What would go into the target's columns, by their names. Generated columns are left out. Empty
    /// where an expression that gives one of them fails with the row.
    public var values: [String: SQLiteValue]
    /// SQLite's error.
    public var reason: SQLiteError
}

/// What is to be done with a ``RefusedRow``.
public enum RefusedRowDecision: Sendable, Hashable {
    /// The table stops at it.
    case stop
    /// It is put aside.
    case setAside
    /// It gets these values in the target's columns, and moves. Its key stays as it is.
    case replace([String: SQLiteValue])
}
