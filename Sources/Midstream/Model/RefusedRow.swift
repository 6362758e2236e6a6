public import SQLiteConnection

/// What becomes of a row that the target does not take, because the row violates a constraint, or because something
/// else has brought a row with its key into the target.
public enum RefusedRowPolicy: Sendable {
    /// The row's table stops with ``MigrationError/Code/rowRefused`` until the row is changed or deleted.
    case stop
    /// The row is put into a table of the target's file, with the reason, and the migration goes on. That table stays.
    /// See ``MigrationProgress/Table/refusedRowsTable``.
    case setAside
    /// The step that finds the row asks the application. If the application cannot be asked, because the process has
    /// not called `addMigration` or because a statement moves the rest of the table at once, the table stops.
    ///
    /// The step calls the closure within its transaction: the closure must not use the database.
    case ask(@Sendable (RefusedRow) -> RefusedRowDecision)

    /// Asks the application what becomes of a row.
    typealias Handler = @Sendable (RefusedRow) -> RefusedRowDecision

    /// The policy as the target stores it. An application's closure is not stored.
    enum Stored: Int64 {
        case stop = 0
        case setAside = 1
        case ask = 2

        /// Whether every refused row stops its table. `addMigration` then tries the rows on which an expression may fail, or which
        /// have a NULL for a column that is NOT NULL; a rebuild tries all rows. A row that is refused is reported at once.
        var alwaysStops: Bool { self == .stop }

        /// Whether the application is asked for values. These are checked against the rows that are to come from all
        /// sources.
        var asks: Bool { self == .ask }

        /// Whether a refused row is settled without the application, for instance when a statement moves the rest of a
        /// table at once.
        var settlesUnasked: Bool { self == .setAside }

        /// What becomes of a row.
        ///
        /// - Parameters:
        ///   - row: Reads the row for the application.
        ///   - handler: Asks the application; `nil` if the application cannot be asked.
        func decision(on row: () throws -> RefusedRow, by handler: Handler?) rethrows -> RefusedRowDecision {
            switch self {
            case .stop: .stop
            case .setAside: .setAside
            case .ask: try handler.map { try $0(row()) } ?? .stop
            }
        }
    }

    var stored: Stored {
        switch self {
        case .stop: .stop
        case .setAside: .setAside
        case .ask: .ask
        }
    }

    var handler: Handler? { if case .ask(let handler) = self { handler } else { nil } }
}

/// A row that the target does not take.
public struct RefusedRow: Sendable, Hashable {
    /// The target's table.
    public var table: String
    /// The source's table.
    public var sourceTable: String
    /// The row's rowid; `nil` if the target's table has none.
    public var rowID: Int64?
    /// The values that would go into the target's columns, by the columns' names. Generated columns are left out. Empty
    /// if an expression that gives one of the values fails with the row.
    public var values: [String: SQLiteValue]
    /// SQLite's error.
    public var reason: SQLiteError
}

/// What is to become of a ``RefusedRow``.
public enum RefusedRowDecision: Sendable, Hashable {
    /// The table stops at the row.
    case stop
    /// The row is set aside.
    case setAside
    /// The row gets these values in the target's columns, and moves. Its key stays as it is.
    case replace([String: SQLiteValue])
}
