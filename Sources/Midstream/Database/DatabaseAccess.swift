internal import SQLText
public import SQLiteConnection

/// What the `read` and `write` blocks of a ``Database`` read and write with.
///
/// Statements on tables that move are given to SQLite so that they see and reach every row; all others go to SQLite as
/// they are. It is valid during the block alone, on the thread that runs it.
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
    /// Whether what is refused here is run elsewhere.
    var isRepeated = false
    var cache = PreparedCache()

    /// Whether a block's transaction is open, or was until the block ended it.
    var isInBlock = false
    /// What statements get of which the transaction has been rolled back by an error, or must be, with that one's code.
    var lostTransaction: SQLiteError?
    /// Whether a statement of the application's, and no error, has ended the transaction that was open before; see `notingLosses`.
    var hasEndedTransaction = false
    /// How many transactions statements of the application's have begun.
    var transactionsBegun = 0
    /// Whether names have come to mean something else in the transaction that is open, as by CREATE VIEW. What they mean again
    /// after a rollback is not what the statements prepared since were routed for.
    var hasChangedNames = false
    /// Whether the gate is held.
    var isInside = false
    /// The application's own transaction, until the first statement in it that reads or writes a file.
    var freshTransaction: FreshTransaction?
    /// Whether the application has foreign keys deferred in a transaction that has not begun.
    var defersForeignKeys = false
    /// Whether CHECK constraints may be ignored, since that could not be ended.
    var ignoresChecks = false
    /// Called when the schema of the target may have got new tables.
    var onSchemaChange: (() -> Void)?
    /// The tables that a step of an upgrade has rebuilt; `nil` while none runs.
    var rebuilt: [RebuiltTable]?
    /// Called when tables were drained, with their names and why.
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

    /// Closes the connection, and lets go of what would keep it: SQLite has the overlay's module, and that has
    /// statements of the connection.
    func close() {
        forgetPrepared()
        overlay.close()
        connection.close()
    }

    /// Lets go of the application's statements. Those that read a union table would keep it from being let go.
    ///
    /// With the last of them that does, SQLite lets it go at once, and it has this called again.
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

    /// The rows that the last INSERT, UPDATE or DELETE changed.
    public var changes: Int64 { overlay.changes }

    /// The rows changed since the connection was opened.
    public var totalChanges: Int64 { connection.totalChanges - overlay.statements.internalChanges }

    /// The rowid of the last row inserted.
    public var lastInsertRowID: Int64 { connection.lastInsertRowID }

    /// Whether a transaction is open.
    public var isInTransaction: Bool { connection.isInTransaction }

    /// Runs one or several statements. Values are for a single one.
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
    /// The statement may be read during the call only. Other statements may run meanwhile.
    ///
    /// - Parameters:
    ///   - sql: The text of one statement.
    ///   - arguments: The values of its parameters.
    ///   - onStart: Called before the first row, and when there is no row, for who wants the names of the columns.
    ///   - body: Gets the statement, whose current row it may read, and says whether it wants more.
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

    /// Whether a block that reads can have what a statement asks of full-text tables from copies of them, which it has not yet.
    private func isAnsweredByCopies(_ outline: StatementOutline, _ reason: MigrationStatistics.Reason) throws -> Bool {
        guard kind == .reader, isInBlock, reason == .program, try overlay.copyContents(for: outline) else {
            return false
        }
        // Their names mean the copies from now on.
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
            // SQLite lets it be written with `writable_schema`.
            case .insert, .update, .delete:
                overlay.watch.hasState && ["sqlite_master", "sqlite_schema"].contains(lower)
            default: false
            }
        if isOurs { throw Self.isState(name, text) }
    }

    /// Makes sure that no name without a schema has fallen through to a table that only a source has.
    private func checkUnqualified(_ outline: StatementOutline, _ route: Route, _ text: String) throws {
        // A view may name what there is not.
        let named = outline.kind == .createView ? [] : outline.tablesNamedWithoutSchema
        let unqualified = AccessWatch.isToldOfEveryRead ? overlay.watch.unqualified : named
        let names = unqualified.filter { !route.traits.commonTables.contains(SQLIdentifier.lowercased($0)) }
        if !names.isEmpty, let table = try overlay.strayTable(among: names) {
            throw Self.missing(table, text)
        }
    }

    /// Prepares the query for the keys of the rows that a write means; `nil` if the route needs no keys, or tables are drained
    /// first.
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

    /// The moving table that a program of a TEMP trigger writes, where the union of both sides has no rowids: SQLite refuses that
    /// before it asks the authorizer.
    private func tableWrittenByProgram(_ error: SQLiteError) -> Int64? {
        let (start, end) = ("table ", " may not be modified")
        guard error.code == .error, error.message.hasPrefix(start), error.message.hasSuffix(end) else { return nil }
        let table = overlay.table(named: String(error.message.dropFirst(start.count).dropLast(end.count)))
        return table?.key.isRowID == false ? table?.id : nil
    }

    /// Whether it is the CREATE … IF NOT EXISTS of a table or view that there is. SQLite asks the authorizer first.
    private func isThere(_ outline: StatementOutline) throws -> Bool {
        guard outline.isConditional, [.createTable, .createVirtualTable, .createView].contains(outline.kind),
            let name = outline.target?.name
        else { return false }
        let sql = "SELECT 1 FROM main.sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
        return try connection.fetchOne(sql, [name]) != nil
    }

    /// Prepares what was made of a statement, and tells of errors in the statement's own terms.
    private func explaining<Result>(_ outline: StatementOutline, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError {
            if let table = overlay.watch.stateTable { throw Self.isState(table, outline.text(outline.range)) }
            if let table = overlay.watch.strayTable {
                // A view that only the source has reads tables in turn.
                let named = outline.tablesNamedWithoutSchema.subtracting(outline.allCommonTables)
                let isNamed = named.contains { SQLIdentifier.equal($0, table) }
                let missing = try isNamed ? table : overlay.strayTable(among: named) ?? table
                throw Self.missing(missing, outline.text(outline.range))
            }
            // It is written, and so found to be no table before anything is asked.
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

    /// Without the migration there would be no such table.
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
