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

    /// Asks the application what becomes of a row.
    typealias Handler = @Sendable (RefusedRow) -> RefusedRowDecision

    /// The policy as the target stores it. An application's closure is not stored.
    enum Stored: Int64 {
        case stop = 0
        case setAside = 1
        case ask = 2

        /// Whether every refused row stops its table. Rows are then tried before the table begins to move, and one that the target
        /// refuses is told at once.
        var alwaysStops: Bool { self == .stop }

        /// Whether the application is asked for values, which are checked by the rows that are to come from all sources.
        var asks: Bool { self == .ask }

        /// Whether a refused row is settled without the application, as where a statement moves the rest of a table at once.
        var settlesUnasked: Bool { self == .setAside }

        /// What becomes of a row.
        ///
        /// - Parameters:
        ///   - row: Reads the row for the application.
        ///   - handler: `nil` where the application cannot be asked.
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
