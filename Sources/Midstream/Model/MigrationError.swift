public import SQLiteConnection

/// An error of a migration: what is wrong, and what to do.
///
/// Errors of the application's own SQL are thrown as ``/SQLiteConnection/SQLiteError``, as without Midstream.
public struct MigrationError: Error, Sendable, Hashable {
    /// The kind of an error.
    ///
    /// `Docs/Errors.md` has the causes of each, and what to do.
    public enum Code: String, Sendable, CaseIterable {
        /// The source's file does not exist, is another file than before, or cannot be opened.
        case sourceUnavailable
        /// Another connection, of this process or another one, has held a lock on a file for too long.
        case locked
        /// A table is missing in the source or the target.
        case missingTable
        /// The tables' columns or keys do not fit each other.
        case unequalTables
        /// The table has a feature that cannot be moved yet.
        case unsupported
        /// The target's table has triggers for INSERT, and the filter has not said whether rows that move fire them:
        /// ``TableMigration/firesTriggers``.
        case triggersUndecided
        /// Rows of the target and rows of the source have the same key.
        case keyCollision
        /// The target's stored state, or the source's claim, belongs to another migration or a newer format.
        case foreignState
        /// The target refused a row.
        case rowRefused
        /// The target does not have what the source has. Memory or a disk is failing, or another program writes the files.
        case notVerified
        /// Rows of the source cannot be read, since a page of its file is damaged: see ``MigrationError/unreadableKeys``.
        case unreadableRows
        /// The source is not as recorded: rows came, went or changed without the migration's knowledge.
        case sourceChanged
        /// A newer build has upgraded the schema.
        case newerSchema
        /// A statement needs something that cannot be done here and now.
        case refusedStatement
        /// SQLite failed in a step. The error's cause is SQLite's own.
        case sqliteError
        /// The call came at a time, or from a place, that does not allow it.
        case misuse
    }

    /// The kind.
    public var code: Code
    /// What is wrong, and what to do.
    public var message: String
    /// The table that the error is about, if any.
    public var table: String?
    /// The rowid of the row that the error is about, if any.
    public var key: Int64?
    /// The PRIMARY KEY of the row that the error is about, if it is a row of a table without rowids.
    public var keyColumns: [SQLiteValue]
    /// The keys of the rows that cannot be read, if the source's file is damaged.
    public var unreadableKeys: UnreadableKeys?
    /// SQLite's error that caused this one, if any.
    public var cause: SQLiteError?
    /// If a statement is refused since it needs all of the table's rows in one place: what in the statement needs that.
    public var reason: MigrationStatistics.Reason?

    init(
        _ code: Code,
        _ message: String,
        table: String? = nil,
        key: Int64? = nil,
        keyColumns: [SQLiteValue] = [],
        unreadableKeys: UnreadableKeys? = nil,
        cause: SQLiteError? = nil,
        reason: MigrationStatistics.Reason? = nil
    ) {
        self.code = code
        self.message = message
        self.table = table
        self.key = key
        self.keyColumns = keyColumns
        self.unreadableKeys = unreadableKeys
        self.cause = cause
        self.reason = reason
    }
}

extension MigrationError: CustomStringConvertible {
    /// One line: kind, message and cause.
    public var description: String {
        "\(code.rawValue): \(message)" + (cause.map { " [\($0)]" } ?? "")
    }
}
