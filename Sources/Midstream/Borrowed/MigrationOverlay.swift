internal import SQLText
public import SQLiteConnection

/// Lets a connection that other code opened read and write moving tables whole: a connection of GRDB, SQLite.swift, FMDB, or
/// plain C.
///
///     let database = try Database(path: "new.db")      // begins the migration, and makes steps
///     try database.addMigration(source: .file("old.db")) { table in … }
///     var connection: OpaquePointer?
///     sqlite3_open("new.db", &connection)
///     try MigrationOverlay.install(on: connection!)
///     sqlite3_exec(connection, "UPDATE messages SET read = 1 WHERE id = 7", nil, nil, nil)
///
/// From then on, names without a schema mean the whole tables. If the overlay cannot carry out a statement, the statement fails
/// with an error that names ``execute(_:_:)``, which runs a statement as a ``Database`` does. `Docs/OtherLibraries.md` has the
/// list.
///
/// The overlay is confined as its connection is: call it only where, and when, the connection may be used.
public final class MigrationOverlay {
    private let connection: Connection
    private let access: DatabaseAccess
    private let writes: BorrowedWrites
    private var watch: SchemaWatch

    private final class Registry {
        var overlays: [ConnectionIdentity: MigrationOverlay] = [:]
    }

    private static let registry = Confined(Registry())

    // MARK: Coming and going

    /// Puts the overlay on a connection. A connection that has an overlay keeps it, and the overlay is brought up to date.
    ///
    /// The overlay stays until the connection is closed, by whatever function, or until ``uninstall()``. It changes no setting of
    /// the connection: neither the authorizer, nor the busy handler, nor the hooks.
    ///
    /// - Parameters:
    ///   - handle: A `sqlite3*` on the target's file. It must have no open transaction.
    ///   - sourceKey: Gives the key of a source's file by the file's path; `nil` for files that are not encrypted.
    /// - Returns: The overlay.
    /// - Throws: ``MigrationError``: `sourceUnavailable`; `unsupported` when something in the schema would see only a part of the
    ///   rows, such as a trigger that mentions a moving table; `misuse` in a transaction, or while a statement of the connection
    ///   is running. The connection then has no overlay, and must not read moving tables. `SQLiteError` of the file.
    /// - Complexity: O(1) in the tables' rows.
    @discardableResult
    public static func install(
        on handle: OpaquePointer,
        sourceKey: (@Sendable (String) -> EncryptionKey?)? = nil
    ) throws -> MigrationOverlay {
        if installed(on: handle) == nil { try checkIdle(Connection(borrowing: handle)) }
        return try install(whileLoadingOn: handle, sourceKey: sourceKey)
    }

    /// Installs the overlay while a statement runs that loads an extension: `SELECT load_extension(…)`. If this fails, functions of the
    /// overlay stay on the connection until it is closed.
    package static func install(
        whileLoadingOn handle: OpaquePointer,
        sourceKey: (@Sendable (String) -> EncryptionKey?)? = nil
    ) throws -> MigrationOverlay {
        if let overlay = installed(on: handle) {
            try overlay.refresh()
            return overlay
        }
        let connection = Connection(borrowing: handle)
        guard !connection.isInTransaction else { throw Self.inTransaction }
        let overlay = try MigrationOverlay(connection, Keyring(sources: sourceKey))
        do {
            try overlay.settle()
        } catch {
            try? overlay.dismantle()
            throw error
        }
        return overlay
    }

    /// The overlay of a connection; `nil` if the connection has none.
    public static func installed(on handle: OpaquePointer) -> MigrationOverlay? {
        registry.withValue { $0.overlays[ConnectionIdentity(handle)] }
    }

    private static var inTransaction: MigrationError {
        MigrationError(
            .misuse,
            "the overlay cannot be made, renewed or removed in a transaction: end the open transaction first"
        )
    }

    /// While a statement runs, SQLite drops no table and removes no function. The overlay must be removed as a whole.
    private static func checkIdle(_ connection: Connection) throws {
        guard connection.hasBusyStatement else { return }
        throw MigrationError(
            .misuse,
            "the overlay cannot be made or removed while a statement of the connection is running: reset or finish the "
                + "running statements first"
        )
    }

    private init(_ connection: Connection, _ keys: Keyring) throws {
        self.connection = connection
        let isReadOnly = connection.isReadOnly(schema: "main") ?? false
        access = try DatabaseAccess(
            connection: connection,
            kind: isReadOnly ? .reader : .borrowed,
            keys: keys,
            counters: StatementCounters()
        )
        let overlay = access.overlay
        writes = BorrowedWrites(overlay: overlay)
        watch = SchemaWatch(statements: overlay.statements)
        overlay.tables.borrowed = writes
        writes.checkSchema = { [weak self, weak overlay] in
            if try self?.watch.check() ?? false { try overlay?.keyActions.readDefinitions() }
        }
        overlay.beforeDirectWrite = { [weak writes] in try writes?.noteDirectWrite(of: $0) }
        overlay.beforeKeyActions = { [weak writes] in try writes?.noteKeyActions(isEnforced: $0) }
        overlay.keyActions.refusal = { [weak writes] in writes?.refusalOfKeys($0) }
        // Statements that were prepared before the overlay was removed may outlive it.
        overlay.admission = { [weak self, weak overlay] _, moving in
            guard let self, let overlay else { return }
            let known = Set(overlay.byName.keys).union(overlay.twins.map(SQLIdentifier.lowercased))
            writes.schemaTraits = try watch.admit(moving, self.connection, overlaid: known)
            writes.names.tables = Set(
                try self.connection.fetchAll("SELECT name FROM main.sqlite_master WHERE type = 'table'").map {
                    SQLIdentifier.lowercased(try $0.get(0))
                }
            )
            writes.forgetPlans()
        }
        overlay.admissionOfSources = { [weak overlay] moves in
            guard let overlay else { return }
            try SchemaWatch.checkMeanings(ofSourcesOf: moves, overlay.connection)
        }
        writes.onDisconnect = { [weak self] in self?.access.releaseStatements() }
        let identity = connection.identity
        // SQLite keeps this closure, and the closure keeps this object.
        try connection.whenClosed { [self] in
            Self.registry.withValue { $0.overlays[identity] = nil }
            _ = self
        }
        Self.registry.withValue { $0.overlays[identity] = self }
    }

    /// Makes the overlay anew if the schema has changed.
    private func settle() throws {
        defer { releaseStatementsOfNobody() }
        if try !access.overlay.isInPlace() { access.overlay.forgetSchemaVersion() }
        let former = (watch, writes.schemaTraits)
        do {
            try access.overlay.refresh()
            try watch.noteTied(access.overlay.keyActions.groups.keys)
        } catch {
            // The overlay stays as it was, and so must what it depends on.
            (watch, writes.schemaTraits) = former
            writes.forgetPlans()
            throw error
        }
    }

    /// Brings the overlay up to date: removes tables that have moved, and adds tables that have begun to move.
    ///
    /// If a connection learns late that a table has moved, it still reads and writes the table rightly. If it learns late that a
    /// table has begun to move, it reads only a part of the table's rows. So call this function when a connection is handed out,
    /// or when a migration has been added. If nothing has changed, it costs one read of the schema's version.
    ///
    /// - Throws: The errors of ``install(on:sourceKey:)``. The overlay then stays as it was, and statements that it does not fit
    ///   fail.
    public func refresh() throws {
        try checkOpen()
        guard !connection.isInTransaction else { throw Self.inTransaction }
        try settle()
    }

    /// Takes the overlay off the connection. Without it, the connection sees only the target's part of moving tables, and cannot
    /// write them.
    ///
    /// - Throws: ``MigrationError`` with code `misuse` in a transaction, and while a statement of the connection is running.
    public func uninstall() throws {
        try checkOpen()
        guard !connection.isInTransaction else { throw Self.inTransaction }
        try Self.checkIdle(connection)
        try dismantle()
    }

    private func dismantle() throws {
        access.releaseStatements()
        try access.overlay.dismantle()
        access.releaseStatements()
        try connection.leave()
    }

    private func checkOpen() throws {
        guard !connection.isClosed else {
            throw MigrationError(.misuse, "the connection is closed, or has no overlay any more")
        }
    }

    // MARK: Looking and running

    /// The names of the tables that the overlay makes whole.
    public var movingTables: [String] { access.overlay.byName.values.map(\.name).sorted() }

    /// Runs one or several statements as a ``Database`` does, within the transaction that is open if there is one.
    ///
    ///     try MigrationOverlay.installed(on: handle)?.execute(
    ///         "INSERT INTO messages(id, body) VALUES (?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body", [7, "…"])
    ///
    /// Use it for what the connection's own functions cannot do with a moving table. It can do everything else, too.
    ///
    /// - Throws: `SQLiteError`, as on a table that is whole. ``MigrationError`` with code `refusedStatement` when the statement
    ///   needs all rows in one place.
    public func execute(_ sql: String, _ arguments: Arguments = Arguments()) throws {
        try running { try access.execute(sql, arguments) }
    }

    /// The rows of one statement, run as ``execute(_:_:)`` does.
    public func fetchAll(_ sql: String, _ arguments: Arguments = Arguments()) throws -> [Row] {
        try running { try access.fetchAll(sql, arguments) }
    }

    /// The text to prepare in the place of a statement that SQLite refuses on a moving table: an upsert, or RETURNING.
    ///
    ///     let sql = "INSERT INTO messages(id, body) VALUES (?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body RETURNING size"
    ///     sqlite3_prepare_v2(handle, try overlay.rewritten(sql), -1, &statement, nil)
    ///
    /// The new statement writes `main.messages`, and promotes the rows that it needs while it runs. It takes the same values, gives the
    /// same rows, and may be kept and run again, until ``refresh()`` removes the table from the overlay. Other texts stay as they are.
    /// The module `MidstreamPreparing` makes SQLite's own functions for preparing do this in the whole program.
    ///
    /// - Parameter sql: One statement. What follows the statement is left out.
    /// - Throws: ``MigrationError`` with code `refusedStatement` when the statement cannot be rewritten, since rows must move before
    ///   it. Run it with ``execute(_:_:)`` or ``fetchAll(_:_:)``. `SQLiteError` as ``execute(_:_:)`` throws it.
    /// - Complexity: O(n) in the length of the text. The result is kept.
    public func rewritten(_ sql: String) throws -> String {
        try rewriting(of: sql) ?? sql
    }

    package func rewriting(of sql: String) throws -> String? {
        try checkOpen()
        // Several threads may prepare statements on one connection.
        return try connection.exclusively {
            defer { releaseStatementsOfNobody() }
            return try writes.rewriting(of: sql)
        }
    }

    private func running<Result>(_ body: () throws -> Result) throws -> Result {
        try checkOpen()
        // A function of the application may call this function meanwhile.
        let wasAnnounced = writes.isAnnounced
        writes.isAnnounced = true
        defer {
            writes.isAnnounced = wasAnnounced
            access.overlay.noteChanges()
            access.forgetPrepared()
            releaseStatementsOfNobody()
        }
        do {
            let result = try body()
            try putBack()
            return result
        } catch {
            try? putBack()
            throw error
        }
    }

    /// Makes the overlay anew after a statement has had it taken down: nothing checks for the overlay before the connection's own
    /// statements.
    private func putBack() throws {
        guard access.overlay.isSuspended else { return }
        if connection.isInTransaction { try access.overlay.resume() } else { try settle() }
    }

    /// Releases the statements if SQLite has connected no union table: then nothing tells when the connection is closed, and the
    /// statements would keep it open.
    private func releaseStatementsOfNobody() {
        if writes.connectedTables == 0 { access.releaseStatements() }
    }
}
