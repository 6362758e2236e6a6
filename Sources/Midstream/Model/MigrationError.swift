public import SQLiteConnection

/// An error of a migration: what is wrong, and what to do.
///
/// Errors of the application's own SQL are thrown as ``/SQLiteConnection/SQLiteError``, as without Midstream.
public struct MigrationError: Error, Sendable, Hashable {
    /// The kind of an error.
    ///
    /// `Docs/Errors.md` has the causes of each, and what to do.
    public enum Code: String, Sendable, CaseIterable {
        /// The source's file does not exist, is not the one that it was, or cannot be opened.
        case sourceUnavailable
        /// Another connection, of this process or of another, holds a lock on a file for too long.
        case locked
        /// A table is missing on either side.
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
        /// The target has not got what the source has: memory or a disk is failing, or something else writes the files.
        case notVerified
        /// Rows of the source cannot be read, since a page of its file is damaged: see ``MigrationError/unreadableKeys``.
        case unreadableRows
        /// The source is not what was recorded: rows came, went or changed behind the migration.
        case sourceChanged
        /// A newer build has upgraded the schema.
        case newerSchema
        /// A statement needs what cannot be done here and now.
        case refusedStatement
        /// SQLite has failed in a step, with the error that is the cause.
        case sqliteError
        /// The call came at a time or from a place where it cannot be carried out.
        case misuse
    }

    /// The kind.
    public var code: Code
    /// What is wrong, and what to do.
    public var message: String
    /// The table, where one is concerned.
    public var table: String?
    /// The rowid of the row, where one is concerned.
    public var key: Int64?
    /// The PRIMARY KEY of the row, where one of a table without rowids is concerned.
    public var keyColumns: [SQLiteValue]
    /// The keys of which nothing can be read, where the source's file is damaged.
    public var unreadableKeys: UnreadableKeys?
    /// The error of SQLite behind it.
    public var cause: SQLiteError?
    /// What of the statement needs the table's rows in one place, where it is refused for that.
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
