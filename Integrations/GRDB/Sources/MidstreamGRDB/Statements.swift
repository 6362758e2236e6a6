import GRDB

import struct SQLiteConnection.Arguments
import struct SQLiteConnection.Row
import struct SQLiteConnection.SQLiteError

extension GRDB.Database {
    /// Runs statements for which rows of a moving table must move first. On other tables they run, too.
    ///
    ///     try db.executeThroughOverlay(
    ///         sql: "INSERT INTO player(id) SELECT id + last_insert_rowid() FROM guest ON CONFLICT DO NOTHING")
    ///
    /// Upserts and RETURNING need this function only where `MigrationOverlay.rewritten` refuses the statement, or where the module
    /// MidstreamPreparing is not in place: see ``MidstreamPreparing/Preparing``.
    ///
    /// GRDB does not see what the statements change, so observers are told that any table may have changed. This takes time in
    /// proportion to the number of tables. Outside a transaction, the statements run in a transaction of their own. Use this function
    /// for writes, and not for BEGIN, VACUUM, ATTACH or changes of the schema.
    ///
    /// - Throws: `DatabaseError`, as on a table that is whole. Midstream's `MigrationError` with code `refusedStatement` when the
    ///   statement needs all rows in one place.
    public func executeThroughOverlay(sql: String, arguments: [(any DatabaseValueConvertible)?] = []) throws {
        guard let overlay = migrationOverlay else {
            return try execute(sql: sql, arguments: StatementArguments(arguments))
        }
        try writing(sql) { try overlay.execute(sql, Arguments(arguments)) }
    }

    /// The rows of one statement, such as one with RETURNING, that runs as by ``executeThroughOverlay(sql:arguments:)``.
    ///
    ///     let drawn = try db.fetchAllThroughOverlay(
    ///         sql: "DELETE FROM ticket WHERE id IN (SELECT id FROM ticket ORDER BY random() LIMIT ?) RETURNING id", arguments: [3])
    public func fetchAllThroughOverlay(
        sql: String,
        arguments: [(any DatabaseValueConvertible)?] = []
    ) throws -> [GRDB.Row] {
        guard let overlay = migrationOverlay else {
            return try GRDB.Row.fetchAll(self, sql: sql, arguments: StatementArguments(arguments))
        }
        var rows: [MidstreamRow] = []
        try writing(sql) { rows = try overlay.fetchAll(sql, Arguments(arguments)) }
        return try rows.map { row in
            // GRDB makes a row with these columns, in this order, and with these names.
            let columns = row.columns.names.map { "? AS \(quoted($0))" }
            let values = row.values.map { $0.databaseValue as (any DatabaseValueConvertible)? }
            let copy = try cachedStatement(sql: "SELECT \(columns.joined(separator: ", "))")
            return try GRDB.Row.fetchOne(copy, arguments: StatementArguments(values)) ?? GRDB.Row()
        }
    }

    /// Runs what GRDB does not see, in a transaction, and tells the observers, also if a part of it was done when it failed.
    private func writing(_ sql: String, _ body: () throws -> Void) throws {
        guard isInsideTransaction else {
            return try inTransaction {
                try writing(sql, body)
                return .commit
            }
        }
        do {
            try body()
        } catch {
            if isInsideTransaction { try? notifyChanges(in: .fullDatabase) }
            throw (error as? SQLiteError).map { DatabaseError($0, sql: sql) } ?? error
        }
        try notifyChanges(in: .fullDatabase)
    }
}

/// GRDB has a `Row`, too.
private typealias MidstreamRow = Row
