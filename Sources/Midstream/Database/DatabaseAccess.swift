internal import SQLText
public import SQLiteConnection

/// What the `read` and `write` blocks of a ``Database`` read and write with.
///
/// Midstream gives SQLite statements on moving tables in a form in which they see and reach every row. All other
/// statements go to SQLite as they are. An access is valid only during its block, on the thread that runs the block.
///
/// It has more than 15 stored properties: what one connection must know between two statements of the application is kept here.
public final class DatabaseAccess {
    enum Kind {
        case reader
        case writer
        /// A connection that other code has opened.
        case borrowed
    }

    let connection: Connection
    let overlay: Overlay
    let kind: Kind
    let gate: FileGate?
    let keys: Keyring
    let counters: StatementCounters
    /// Whether the caller runs statements that are refused here again on another connection.
    var isRepeated = false
    var cache = PreparedCache()

    /// Whether a block's transaction is open, or was open until the block ended it.
    var isInBlock = false
    /// The error with which statements fail after another error has rolled their transaction back, or because it must
    /// be rolled back. It has the code of that other error.
    var lostTransaction: SQLiteError?
    /// Whether a statement of the application, and not an error, has ended the transaction that was open before: see
    /// `notingLosses`.
    var hasEndedTransaction = false
    /// How many transactions the application's statements have begun.
    var transactionsBegun = 0
    /// Whether names have come to mean something else in the open transaction, as by CREATE VIEW. After a rollback they
    /// mean again what they meant before. Statements that were prepared since were routed for the other meaning.
    var hasChangedNames = false
    /// Whether the gate is held.
    var isInside = false
    /// The application's own transaction, until the first statement in it that reads or writes a file.
    var freshTransaction: FreshTransaction?
    /// Whether the application has foreign keys deferred in a transaction that has not begun.
    var defersForeignKeys = false
    /// Whether SQLite may still ignore CHECK constraints, because switching them on again has failed.
    var ignoresChecks = false
    /// Called when the schema of the target may have got new tables.
    var onSchemaChange: (() -> Void)?
    /// The tables that a step of an upgrade has rebuilt; `nil` while none runs.
    var rebuilt: [RebuiltTable]?
    /// Called when tables were drained, with the tables' names and the text of the statement that needed it.
    var onDrain: (([String], String) -> Void)?

    init(
        connection: Connection,
        kind: Kind,
        gate: FileGate? = nil,
        keys: Keyring,
        knownTables: KnownTables = KnownTables(),
        counters: StatementCounters
    ) throws {
        self.counters = counters
        self.connection = connection
        self.kind = kind
        self.gate = gate
        self.keys = keys
        overlay = try Overlay(connection: connection, canPromote: kind != .reader, keys: keys, knownTables: knownTables)
        overlay.statements.rollBackJournals = { [unowned self] in try rollBackJournals() }
    }

    deinit {
        close()
    }

    /// Closes the connection, and lets go of what would keep it open: SQLite holds the overlay's module, and the module
    /// holds statements of the connection.
    func close() {
        forgetPrepared()
        overlay.close()
        connection.close()
    }

    /// Lets go of the application's prepared statements. Those that read a union table would keep SQLite from letting
    /// go of the table.
    ///
    /// When the last such statement goes, SQLite lets go of the table at once, and that calls this function again.
    func forgetPrepared() {
        let former = cache
        cache.removeAll()
        withExtendedLifetime(former) {}
    }

    /// Lets go of the statements that can be prepared again.
    func releaseStatements() {
        forgetPrepared()
        overlay.releaseStatements()
    }

    // MARK: What the application calls

    /// The number of rows that the last INSERT, UPDATE or DELETE changed.
    public var changes: Int64 { overlay.changes }

    /// The number of rows changed since the connection was opened.
    public var totalChanges: Int64 { connection.totalChanges - overlay.statements.internalChanges }

    /// The rowid of the last row inserted.
    public var lastInsertRowID: Int64 { connection.lastInsertRowID }

    /// Whether a transaction is open.
    public var isInTransaction: Bool { connection.isInTransaction }

    /// Runs one or several statements. Values can be given only for a single statement.
    ///
    /// - Throws: ``/SQLiteConnection/SQLiteError``, as SQLite would on a table that is whole.
    public func execute(_ sql: String, _ arguments: Arguments = Arguments()) throws {
        if cache.contains(sql, overlay) { return try perform(.cached(sql), arguments) { _ in true } }
        let pieces = SQLScript(sql).filter { $0.kind != .empty }
        guard pieces.count <= 1 || arguments.isEmpty else {
            throw SQLiteError(code: .misuse, message: "values were given for a text of several statements", sql: sql)
        }
        for piece in pieces { try perform(.outlined(piece, in: sql), arguments) { _ in true } }
    }

    /// Calls `body` with each row of one statement's result, until it returns `false`.
    ///
    /// `body` may read the statement only during the call. Other statements may run meanwhile.
    ///
    /// - Parameters:
    ///   - sql: The text of one statement.
    ///   - arguments: The values of its parameters.
    ///   - onStart: Called before the first row, or when there is no row, for callers that want the names of the
    ///     columns.
    ///   - body: Gets the statement, whose current row it may read, and returns whether it wants more rows.
    public func forEachRow(
        _ sql: String,
        _ arguments: Arguments = Arguments(),
        onStart: (Statement) -> Void = { _ in },
        _ body: (Statement) throws -> Bool
    ) throws {
        if cache.contains(sql, overlay) { return try perform(.cached(sql), arguments, onStart, body) }
        let pieces = SQLScript(sql).filter { $0.kind != .empty }
        guard let piece = pieces.first else {
            throw SQLiteError(code: .misuse, message: "there is no statement in the text", sql: sql)
        }
        guard pieces.count == 1 else {
            throw SQLiteError(code: .misuse, message: "the text has more than one statement", sql: sql)
        }
        try perform(.outlined(piece, in: sql), arguments, onStart, body)
    }

    /// All rows of one statement's result.
    public func fetchAll(_ sql: String, _ arguments: Arguments = Arguments()) throws -> [Row] {
        var rows: [Row] = []
        try forEachRow(sql, arguments) { statement in
            rows.append(Row(copying: statement))
            return true
        }
        return rows
    }

    /// The first row of one statement's result.
    public func fetchOne(_ sql: String, _ arguments: Arguments = Arguments()) throws -> Row? {
        var row: Row?
        try forEachRow(sql, arguments) { statement in
            row = Row(copying: statement)
            return false
        }
        return row
    }

    /// The rows of one statement's result, decoded by their columns' names.
    public func fetchAll<Record: Decodable>(
        _ type: Record.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> [Record] {
        let decoder = StatementDecoder()
        var records: [Record] = []
        try forEachRow(sql, arguments) { statement in
            records.append(try decoder.decode(type, from: statement))
            return true
        }
        return records
    }

    /// The first row of one statement's result, decoded by its columns' names.
    public func fetchOne<Record: Decodable>(
        _ type: Record.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> Record? {
        var record: Record?
        try forEachRow(sql, arguments) { statement in
            record = try StatementDecoder().decode(type, from: statement)
            return false
        }
        return record
    }

    /// Inserts a record: each property that it encodes is a column.
    ///
    ///     try access.insert(Message(id: nil, body: "Hello"), into: "messages")
    ///
    /// A property that is `nil` gives no column, so that SQLite chooses the id or the default.
    public func insert(_ record: some Encodable, into table: String) throws {
        let (columns, values) = try RecordEncoder().encode(record)
        try execute(RecordEncoder.insertSQL(table: table, columns: columns), Arguments(values: values))
    }

    /// The first column of the first row of one statement's result; `nil` when there is no row, or it is NULL.
    public func fetchValue<Wanted: ValueConvertible>(
        _: Wanted.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> Wanted? {
        var value: Wanted?
        try forEachRow(sql, arguments) { statement in
            if !statement.isNull(at: 0) { value = try statement.read(Wanted.self, at: 0) }
            return false
        }
        return value
    }

    // MARK: Preparing

    /// In a block that only reads, makes the copies of full-text tables that answer a statement, if the block does not
    /// have them yet.
    ///
    /// - Returns: Whether there is a new copy, so that the statement must be prepared again.
    private func isAnsweredByCopies(_ outline: StatementOutline, _ reason: MigrationStatistics.Reason) throws -> Bool {
        guard kind == .reader, isInBlock, reason == .program, try overlay.copyContents(for: outline) else {
            return false
        }
        // From now on, the tables' names mean the copies.
        forgetPrepared()
        return true
    }

    func prepare(_ piece: Piece) throws -> Prepared {
        if let prepared = cache.statement(piece.key, overlay) { return prepared }
        let outline = piece.outline
        let text = outline.text(outline.range)
        try checkTarget(of: outline, text)
        var route = try Router(overlay: overlay, enforcesForeignKeys: enforcesForeignKeys()).route(
            outline,
            in: piece.text
        )
        if !route.drained.isEmpty {
            if try isAnsweredByCopies(outline, route.reason) { return try prepare(piece) }
            try drain(route.drained, route.reason, for: text)
            return try prepare(piece)
        }
        let (statement, violated): (Statement?, Set<Int64>)
        do {
            (statement, violated) = try overlay.watch.preparing(route) {
                try explaining(outline) { try connection.prepareFirst(route.sql).0 }
            }
        } catch let error as SQLiteError {
            guard let table = tableWrittenByProgram(error) else { throw error }
            try drain([table], .program, for: text)
            return try prepare(piece)
        }
        guard let statement else { throw SQLiteError(code: .misuse, message: "there is no statement", sql: text) }
        try checkUnqualified(outline, route, text)
        if !violated.isEmpty, try isAnsweredByCopies(outline, .program) { return try prepare(piece) }
        route.drain(violated, .program)
        route.isOfMoment = route.isOfMoment || overlay.watch.assumesNoRows || overlay.watch.contents.hasCopies
        route.writtenSchema = overlay.watch.writtenSchema
        route.writesTarget = try outline.kind == .reindex || overlay.watch.writesTarget && !isThere(outline)
        let keys = try prepareKeys(&route, outline)
        let prepared = Prepared(
            text: text,
            route: route,
            statement: statement,
            keys: keys,
            parameters: keys == nil ? [] : outline.parameters
        )
        if prepared.isKept {
            if cache.isFull(overlay) { forgetPrepared() }
            cache.keep(prepared, piece.key, overlay)
        }
        return prepared
    }

    /// Refuses to change what the engine has in the schema: its triggers, its attached sources, and the schema's own table.
    private func checkTarget(of outline: StatementOutline, _ text: String) throws {
        guard let name = outline.target?.name else { return }
        let lower = SQLIdentifier.lowercased(name)
        let isOurs =
            switch outline.kind {
            case .dropTrigger: OwnNames.isTrigger(lower)
            case .detach: lower.hasPrefix(MigrationRecord.schemaPrefix)
            // With `writable_schema`, SQLite lets a statement write this table.
            case .insert, .update, .delete:
                overlay.watch.hasState && ["sqlite_master", "sqlite_schema"].contains(lower)
            default: false
            }
        if isOurs { throw Self.isState(name, text) }
    }

    /// Makes sure that no name without a schema has fallen through to a table that only a source has.
    private func checkUnqualified(_ outline: StatementOutline, _ route: Route, _ text: String) throws {
        // A view may name tables that do not exist.
        let named = outline.kind == .createView ? [] : outline.tablesNamedWithoutSchema
        let unqualified = AccessWatch.isToldOfEveryRead ? overlay.watch.unqualified : named
        let names = unqualified.filter { !route.traits.commonTables.contains(SQLIdentifier.lowercased($0)) }
        if !names.isEmpty, let table = try overlay.strayTable(among: names) {
            throw Self.missing(table, text)
        }
    }

    /// Prepares the query for the keys of the rows that a write affects; `nil` if the route needs no keys, or if tables
    /// are drained first.
    private func prepareKeys(_ route: inout Route, _ outline: StatementOutline) throws -> Statement? {
        switch route.preparation {
        case .none: return nil
        case .promote(_, let text), .collect(_, let text):
            guard route.drained.isEmpty else { return nil }
            let (keys, _) = try overlay.watch.preparing(route.ofKeys) {
                try explaining(outline) { try connection.prepare(text) }
            }
            route.isOfMoment = route.isOfMoment || overlay.watch.assumesNoRows
            return keys
        }
    }

    /// The moving table that a TEMP trigger's program writes, if the error says so and the table has no rowids. SQLite
    /// refuses to write the union table of such a table before it asks the authorizer.
    private func tableWrittenByProgram(_ error: SQLiteError) -> Int64? {
        let (start, end) = ("table ", " may not be modified")
        guard error.code == .error, error.message.hasPrefix(start), error.message.hasSuffix(end) else { return nil }
        let table = overlay.table(named: String(error.message.dropFirst(start.count).dropLast(end.count)))
        return table?.key.isRowID == false ? table?.id : nil
    }

    /// Whether the statement is CREATE … IF NOT EXISTS of a table or view that exists. SQLite asks the authorizer
    /// before it finds that out.
    private func isThere(_ outline: StatementOutline) throws -> Bool {
        guard outline.isConditional, [.createTable, .createVirtualTable, .createView].contains(outline.kind),
            let name = outline.target?.name
        else { return false }
        let sql = "SELECT 1 FROM main.sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
        return try connection.fetchOne(sql, [name]) != nil
    }

    /// Prepares what Midstream has made of a statement, and reports errors in the application's own terms.
    private func explaining<Result>(_ outline: StatementOutline, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError {
            if let table = overlay.watch.stateTable { throw Self.isState(table, outline.text(outline.range)) }
            if let table = overlay.watch.strayTable {
                // A view that only the source has may read the table. Then the error names the view.
                let named = outline.tablesNamedWithoutSchema.subtracting(outline.allCommonTables)
                let isNamed = named.contains { SQLIdentifier.equal($0, table) }
                let missing = try isNamed ? table : overlay.strayTable(among: named) ?? table
                throw Self.missing(missing, outline.text(outline.range))
            }
            // If the statement writes a view that only the source has, SQLite finds that it is no table before it asks
            // the authorizer.
            let message = SQLIdentifier.lowercased(error.message)
            let written = outline.tablesNamedWithoutSchema.filter {
                message.hasPrefix("cannot modify \(SQLIdentifier.lowercased($0)) ")
            }
            if !written.isEmpty, let view = try overlay.strayTable(among: written) {
                throw Self.missing(view, outline.text(outline.range))
            }
            throw error.inTheTermsOf(outline)
        }
    }

    /// The error for a table that only a source has. Without the migration there would be no such table.
    static func missing(_ table: String, _ sql: String) -> SQLiteError {
        SQLiteError(code: .error, message: "no such table: \(table)", sql: sql)
    }

    static func isState(_ table: String, _ sql: String) -> SQLiteError {
        SQLiteError(
            code: .authorization,
            message:
                "\(table) tells where the rows of moving tables are, and cannot be changed while they move: leave out "
                + "tables whose names begin with \(OwnNames.prefix), or let the migrations end, or cancel them",
            sql: sql
        )
    }

    func enforcesForeignKeys() throws -> Bool {
        if overlay.foreignKeys.isEmpty { return false }
        return try connection.fetchValue(Int64.self, "PRAGMA foreign_keys") == 1
    }
}
