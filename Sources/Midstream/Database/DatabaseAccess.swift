internal import SQLText
public import SQLiteConnection

/// What the `read` and `write` blocks of a ``Database`` read and write with.
///
/// Statements on tables that move are given to SQLite so that they see and reach every row; all others go to SQLite as
/// they are. It is valid during the block alone, on the thread that runs it.
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
    private let gate: FileGate?
    private let keys: Keyring
    private let counters: StatementCounters
    /// Whether what is refused here is run elsewhere.
    private var isRepeated = false
    private var cache = PreparedCache()

    /// Whether a block's transaction is open, whose snapshot the overlay is known to fit.
    private(set) var isInBlock = false
    /// What statements get of which the transaction has been rolled back by an error, or must be, with that one's code.
    private var lostTransaction: SQLiteError?
    /// Whether the gate is held.
    private var isInside = false
    /// The statements that began the application's own transaction, while nothing else has run in it, and it has no snapshot.
    private var freshTransaction: [String]?
    /// Whether the application has foreign keys deferred in a transaction that has not begun.
    private var defersForeignKeys = false
    /// How many statements that write have begun and not ended.
    private var runningWrites = 0
    /// Whether CHECK constraints may be ignored, since that could not be ended.
    private var ignoresChecks = false
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
    }

    deinit {
        close()
    }

    /// Closes the connection, and lets go of what would keep it: SQLite has the overlay's module, and that has
    /// statements of the connection.
    func close() {
        cache.removeAll()
        overlay.close()
        connection.close()
    }

    /// Lets go of the application's statements. Those that read a union table would keep it from being let go.
    func forgetPrepared() {
        cache.removeAll()
    }

    /// Lets go of the statements that can be prepared again.
    func releaseStatements() {
        cache.removeAll()
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

    func prepare(_ piece: Piece) throws -> Prepared {
        if let prepared = cache.statement(piece.key, overlay) { return prepared }
        let outline = piece.outline
        let text = outline.text(outline.range)
        if outline.kind == .dropTrigger || outline.kind == .detach, let name = outline.target?.name,
            SQLIdentifier.lowercased(name).hasPrefix(StateStore.prefix)
        {
            throw Self.isState(name, text)
        }
        var route = Router(overlay: overlay, enforcesForeignKeys: try enforcesForeignKeys()).route(
            outline,
            in: piece.text
        )
        if !route.drained.isEmpty {
            try drain(route.drained, route.reason, for: text)
            return try prepare(piece)
        }
        let (statement, violated) = try overlay.watch.preparing(route) {
            try explaining(outline) { try connection.prepareFirst(route.sql).0 }
        }
        guard let statement else { throw SQLiteError(code: .misuse, message: "there is no statement", sql: text) }
        // A view may name what there is not.
        let named = outline.kind == .createView ? [] : outline.tablesNamedWithoutSchema
        let unqualified = AccessWatch.isToldOfEveryRead ? overlay.watch.unqualified : named
        let names = unqualified.filter { !route.traits.commonTables.contains(SQLIdentifier.lowercased($0)) }
        if !names.isEmpty, let table = try overlay.strayTable(among: names) {
            throw Self.missing(table, text)
        }
        route.drain(violated, .program)
        route.writtenSchema = overlay.watch.writtenSchema
        var keys: Statement?
        switch route.preparation {
        case .promote(_, let text), .collect(_, let text):
            if route.drained.isEmpty {
                keys = try overlay.watch.preparing(route.ofKeys) {
                    try explaining(outline) { try connection.prepare(text) }
                }.0
            }
        case .none: break
        }
        let prepared = Prepared(
            text: text,
            route: route,
            statement: statement,
            keys: keys,
            parameters: keys == nil ? [] : outline.parameters
        )
        if prepared.isKept { cache.keep(prepared, piece.key, overlay) }
        return prepared
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
    private static func missing(_ table: String, _ sql: String) -> SQLiteError {
        SQLiteError(code: .error, message: "no such table: \(table)", sql: sql)
    }

    private static func isState(_ table: String, _ sql: String) -> SQLiteError {
        SQLiteError(
            code: .authorization,
            message:
                "\(table) tells where the rows of moving tables are, and cannot be changed while they move: leave out what has "
                + "names that begin with \(StateStore.prefix), or let the migrations end, or cancel them",
            sql: sql
        )
    }

    private func enforcesForeignKeys() throws -> Bool {
        if overlay.foreignKeys.isEmpty { return false }
        return try connection.fetchValue(Int64.self, "PRAGMA foreign_keys") == 1
    }

    // MARK: Running

    private static func changed(_ piece: Piece) -> SQLiteError {
        SQLiteError(code: .schema, message: "database schema has changed", sql: piece.text)
    }

    /// The overlay turned out to be made for an older schema; nothing has been done.
    private struct Stale: Error {}

    private func perform(
        _ piece: Piece,
        _ arguments: Arguments,
        _ onStart: (Statement) -> Void = { _ in },
        _ onRow: (Statement) throws -> Bool
    ) throws {
        try checkTransaction()
        do {
            try performInTransaction(piece, arguments, onStart, onRow)
        } catch {
            if isInBlock && !connection.isInTransaction || connection.isHalfUndone { noteLost(error) }
            throw error
        }
    }

    private func noteLost(_ error: (any Error)?) {
        guard lostTransaction == nil else { return }
        let cause = error as? SQLiteError ?? (error as? MigrationError)?.cause
        lostTransaction = SQLiteError(
            code: cause?.code ?? .abort,
            message: "the transaction has been rolled back by an error" + (error.map { ": \($0)" } ?? "")
        )
    }

    /// - Throws: What came before is lost, and what follows would be committed without it; or half of something was done, and
    ///   could not be undone.
    private func checkTransaction() throws {
        if connection.isHalfUndone { noteLost(nil) }
        guard let lostTransaction else { return }
        if !isInBlock {
            try connection.rollBack()
            self.lostTransaction = nil
        }
        throw lostTransaction
    }

    private func performInTransaction(
        _ piece: Piece,
        _ arguments: Arguments,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        try insideGate {
            try enforceChecks()
            var (tries, staleTries) = (0, 0)
            var isDone = false
            while !isDone {
                do {
                    try makeCurrent(before: piece)
                    isDone = try performOnce(piece, arguments, tries, staleTries, onStart, onRow)
                    tries += 1
                } catch is Stale {
                    // As often as SQLite itself tries.
                    staleTries += 1
                    guard staleTries < 50 else { throw Self.changed(piece) }
                    try beforeFreshTransaction(refreshOverlay)
                }
            }
        }
    }

    /// - Returns: `false` where the caller is to try again, since the cause has been seen to.
    private func performOnce(
        _ piece: Piece,
        _ arguments: Arguments,
        _ tries: Int,
        _ staleTries: Int,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws -> Bool {
        let prepared: Prepared
        do {
            prepared = try prepare(piece)
        } catch let error as SQLiteError where error.isMissingFence {
            // A table has begun to move since the overlay was compared.
            guard freshTransaction != nil || !connection.isInTransaction else { throw error }
            throw Stale()
        }
        let isInTransaction = connection.isInTransaction
        if !prepared.route.drained.isEmpty, tries < 10 {
            try drain(prepared.route.drained, prepared.route.reason, for: prepared.text)
            return false
        }
        try confirm(prepared)
        let attempt = prepared.route.redirected.flatMap { overlay.tables.byID[$0] }.map { Attempt(self, $0) }
        var hasBegun = false
        do {
            try run(
                prepared,
                arguments,
                staleTries,
                {
                    hasBegun = true
                    onStart($0)
                },
                onRow
            )
            attempt?.keep()
            noteBeginning(prepared)
            finished(prepared)
            return true
        } catch is Stale {
            throw Stale()
        } catch let error as SQLiteError {
            if error.code == .authorization, let table = overlay.watch.stateTable {
                throw Self.isState(table, prepared.text)
            }
            // Its table has gone since it was prepared.
            if error.code == .authorization, let table = overlay.watch.strayTable {
                throw Self.missing(table, prepared.text)
            }
            if let attempt, error.code == .constraintDatatype || error.code == .mismatch,
                attempt.table.openCursors == 0, try attempt.undo()
            {
                // With a trigger, SQLite checks types before all other constraints, and of all rows first. Older
                // versions do not, and may have come to the row by others that are to stay.
                try drain([attempt.table.id], .valueType, for: prepared.text)
                return false
            }
            attempt?.keep()
            // The statement had not read all tables that it names when SQLite found a source's schema changed, as
            // with the end of another table's move, and read it anew. No transaction was rolled back.
            if error.code == .abortRollback, tries < 10, !hasBegun, connection.isInTransaction == isInTransaction {
                return false
            }
            if tries < 10, !isInBlock, !connection.isInTransaction, try mends(error, prepared) { return false }
            finished(prepared)
            throw error.naming(prepared.text)
        } catch {
            attempt?.keep()
            finished(prepared)
            throw error
        }
    }

    /// Sees to what kept a statement from running at all, when the schema had changed under it.
    private func mends(_ error: SQLiteError, _ prepared: Prepared) throws -> Bool {
        if error.code == .authorization, !overlay.watch.violated.isEmpty {
            try drain(overlay.watch.violated, .program, for: prepared.text)
            return true
        }
        // What the statement was routed to has gone with the end of the migration.
        if error.isMissingTable, try !overlay.isCurrent() {
            try overlay.refresh()
            return true
        }
        if error.code == .schema, overlay.schemaVersion == nil {
            try overlay.refresh()
            return true
        }
        return false
    }

    /// Sees to it that the overlay fits the snapshot that the statement will read.
    private func makeCurrent(before piece: Piece) throws {
        if connection.isInTransaction, overlay.isSuspended { try resumeOverlay(before: piece) }
        let (tables, reason) = overlay.needsDraining
        if connection.isInTransaction, !tables.isEmpty { try drain(tables, reason, for: piece.text) }
        // A block's transaction may have been ended by an error that the block has caught.
        if isInBlock, connection.isInTransaction, freshTransaction == nil { return }
        if !connection.isInTransaction {
            // What mends it must be run.
            if piece.isDetach { return }
            try overlay.attachedFiles.check()
            if try !overlay.isCurrent() { try refreshOverlay() }
            return
        }
        guard freshTransaction != nil else { return }
        if connection.isWriting == true {
            // Something was done that nobody has told of: it must not be undone.
            guard try overlay.isCurrent() else { throw Self.changed(piece) }
            freshTransaction = nil
            return
        }
        switch piece.role(overlay) {
        case .begin, .savepoint, .end, .rollback: return
        case .write, .other:
            // Who writes first may wait for the write lock, unless something has been read.
            if !connection.hasBusyStatement {
                // Of what is prepared already, SQLite itself looks whether it is of the schema.
                if cache.contains(piece.key, overlay) { return }
                return try beforeFreshTransaction {
                    try overlay.attachedFiles.check()
                    if try !overlay.isCurrent() { try refreshOverlay() }
                }
            }
        case .query: break
        }
        try beginSnapshot()
    }

    /// Begins the snapshot of the application's transaction, if it has none, for the overlay to fit it.
    func beginSnapshot() throws {
        while freshTransaction != nil {
            if try overlay.isCurrent() { freshTransaction = nil } else { try beforeFreshTransaction(refreshOverlay) }
            overlay.forgetState()
        }
    }

    /// Runs `body` with the application's transaction rolled back, if it is fresh, and begins that again.
    private func beforeFreshTransaction(_ body: () throws -> Void) throws {
        guard let beginning = freshTransaction, connection.isInTransaction else { return try body() }
        let areDeferred = areForeignKeysDeferred
        try connection.execute("ROLLBACK")
        let result = Result { try body() }
        do {
            for statement in beginning { try connection.execute(script: statement) }
            try deferForeignKeys(areDeferred)
        } catch {
            noteLost(error)
            throw error
        }
        try result.get()
    }

    /// What ends the transaction needs no overlay, and must not fail for want of it.
    private func resumeOverlay(before piece: Piece) throws {
        switch piece.role(overlay) {
        case .end, .rollback, .savepoint: break
        case .begin, .query, .write, .other: try overlay.resume()
        }
    }

    private func run(
        _ prepared: Prepared,
        _ arguments: Arguments,
        _ staleTries: Int,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        prepared.beginsTransaction = !connection.isInTransaction
        // In a block that only reads, nothing changes from its beginning to its end.
        if kind == .writer || !isInBlock || !connection.isInTransaction { overlay.forgetState() }
        if let table = prepared.route.changedTable {
            try beforeFreshTransaction { try MovingAway.checkChange(of: table, on: connection) }
        }
        if let schema = prepared.route.vacuumed {
            try MovingAway(connection: connection, schema: schema).checkVacuum()
        }
        try prepared.bind(arguments)
        // While a statement writes, its transaction is open, in which nobody else changes a schema, and none can be begun.
        if connection.isInTransaction || runningWrites > 0 {
            if freshTransaction != nil, prepared.route.role == .write || prepared.route.role == .other {
                if prepared.route.touchesNoFile { return try runStatement(prepared, onStart, onRow) }
                if staleTries < 2, waitsForTarget(prepared) {
                    return try runUnlessPreparedAnew(prepared, onStart, onRow)
                }
                if case .transaction = prepared.route.isolation { try lockFreshTransaction() }
                guard try overlay.isCurrent() else { throw Stale() }
                freshTransaction = nil
            }
            var refused: [RefusedDelete] = []
            if prepared.keys != nil { try protected { refused = try promote(prepared) } }
            try runStatement(prepared, with: refused, onStart, onRow)
            return try checkBeginning(prepared)
        }
        switch prepared.route.isolation {
        case .none:
            try runAlone(prepared, onStart, onRow)
            try checkBeginning(prepared)
        case .snapshot(let isHeld):
            // The end of that would end it.
            if defersForeignKeys, !isHeld { return try runStatement(prepared, with: [], onStart, onRow) }
            guard let snapshot = try overlay.snapshot() else { throw Stale() }
            defer { snapshot.reset() }
            try runStatement(
                prepared,
                with: [],
                { statement in
                    // Or a loop over other tables could not write what others have written since.
                    if !isHeld { snapshot.reset() }
                    onStart(statement)
                },
                onRow
            )
        case .unlessPreparedAnew:
            do {
                try runUnlessPreparedAnew(prepared, onStart, onRow)
            } catch is Stale {
                let schema = prepared.route.writtenSchema ?? "main"
                guard schema != "main" else { return try runInTransaction(prepared, onStart, onRow) }
                // It has not to wait for the target's lock.
                try overlay.attachedFiles.check()
                try runStatement(prepared, with: [], onStart, onRow)
            }
        case .transaction:
            try runInTransaction(prepared, onStart, onRow)
        }
    }

    /// Whether a statement has the target's write lock when it has begun, or has done nothing, and that can be told.
    private func waitsForTarget(_ prepared: Prepared) -> Bool {
        guard case .unlessPreparedAnew = prepared.route.isolation, prepared.route.writtenSchema == "main" else {
            return false
        }
        return prepared.route.role == .write || connection.isWriting != nil
    }

    /// Notes what begins a transaction of the application's, as long as it can be begun again.
    private func noteBeginning(_ prepared: Prepared) {
        switch prepared.route.role {
        case .begin where prepared.beginsTransaction, .savepoint where prepared.beginsTransaction:
            freshTransaction = canBeginAgain(prepared) ? [prepared.text] : nil
        case .savepoint, .end, .rollback: freshTransaction?.append(prepared.text)
        case .begin, .query, .write, .other: break
        }
    }

    /// Whether a transaction that has just begun can be begun again later. One cannot that has a lock, or has begun with the
    /// changes of a statement that runs, nor can one in which another library runs statements of its own.
    private func canBeginAgain(_ prepared: Prepared) -> Bool {
        kind != .borrowed && prepared.statement.isReadOnly && !connection.hasBusyStatement
    }

    /// Sees to it that a transaction that has just begun has an overlay that fits, if it cannot be begun again later.
    private func checkBeginning(_ prepared: Prepared) throws {
        guard prepared.beginsTransaction, connection.isInTransaction, !canBeginAgain(prepared) else { return }
        do {
            guard try overlay.isCurrent() else { throw Stale() }
        } catch {
            try connection.rollBack()
            throw error
        }
    }

    /// Sees to it that a statement that is not to be prepared anew as it begins was prepared for the overlay's schema.
    private func confirm(_ prepared: Prepared) throws {
        guard case .unlessPreparedAnew = prepared.route.isolation, !prepared.isOfOverlay,
            freshTransaction != nil || !connection.isInTransaction
        else { return }
        try beforeFreshTransaction { guard try overlay.isCurrent() else { throw Stale() } }
        prepared.isOfOverlay = true
    }

    /// Runs a statement of which SQLite, as it begins, takes the write lock, and looks whether the schema is the one that it was
    /// prepared for.
    ///
    /// - Throws: ``Stale`` if it is not; nothing has been done.
    private func runUnlessPreparedAnew(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        do {
            try overlay.watch.keeping(prepared.statement) {
                try runStatement(
                    prepared,
                    with: [],
                    { statement in
                        // One that had nothing to do has not touched the file, as CREATE TABLE IF NOT EXISTS.
                        if connection.isWriting ?? true { freshTransaction = nil }
                        onStart(statement)
                    },
                    onRow
                )
            }
        } catch {
            if overlay.watch.takeStop() { throw Stale() }
            // One that found the file locked has read nothing.
            let isFresh = (error as? SQLiteError).map { ResultCode.busy ~= $0.code } ?? false
            if !isFresh, freshTransaction != nil, try connection.isWriting ?? overlay.isCurrent() {
                freshTransaction = nil
            }
            throw error
        }
    }

    /// Begins the snapshot of the application's transaction with the write lock.
    ///
    /// - Throws: ``Stale`` if the overlay was not made for it; `SQLiteError`, `BUSY` where the lock is waited for in vain: the
    ///   transaction is as fresh as it was.
    private func lockFreshTransaction() throws {
        do {
            try overlay.unnoticed { try WriteLock.take(connection, by: "midstream_state", in: "main") }
        } catch let error as SQLiteError where error.isMissingTable {
            // Another process has just ended the last migration.
            throw Stale()
        }
        guard try overlay.isOfSchema() else { throw Stale() }
    }

    /// Runs a statement for which SQLite, if anything, sees to a transaction.
    private func runAlone(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        guard let schema = prepared.route.vacuumed else { return try runStatement(prepared, with: [], onStart, onRow) }
        guard let snapshot = try overlay.snapshot() else { throw Stale() }
        let tables: Set<String>
        do {
            defer { snapshot.reset() }
            tables = try overlay.ownTables(in: schema)
        }
        do {
            try overlay.watch.vacuuming(tables) { try runStatement(prepared, with: [], onStart, onRow) }
        } catch {
            throw overlay.watch.takeStop() ? Stale() : error
        }
    }

    /// Runs a statement in a transaction of its own, with the promotions that it needs. What one that fails leaves done
    /// natively, as UPDATE OR FAIL does, stays done.
    private func runInTransaction(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        try beginWriting()
        var refused: [RefusedDelete] = []
        do {
            try overlay.attachedFiles.check()
            guard try overlay.isCurrent() else { throw Stale() }
            refused = try promote(prepared)
        } catch {
            try? connection.rollBack()
            throw error
        }
        let before = connection.totalChanges
        do {
            try runStatement(prepared, with: refused, onStart, onRow)
        } catch {
            if connection.isHalfUndone {
                try? connection.rollBack()
            } else if connection.isInTransaction {
                try commitOrRollBack()
            }
            throw error
        }
        do {
            try commitOrRollBack()
        } catch {
            // To the application the statement itself has failed. DROP TABLE deletes rows where foreign keys are enforced.
            if prepared.route.role == .write || connection.totalChanges != before { overlay.noteUndone() }
            throw error
        }
    }

    private func commitOrRollBack() throws {
        do {
            try connection.execute("COMMIT")
        } catch {
            try? connection.rollBack()
            throw error
        }
    }

    /// Runs a statement. Of a DELETE, the rows go too that it means and the target does not take: all, or none if it fails. It
    /// still finds them pending.
    private func runStatement(
        _ prepared: Prepared,
        with refused: [RefusedDelete],
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        if let view = prepared.route.droppedView { try overlay.removeTwin(of: view) }
        if prepared.route.suspendsOverlay, !overlay.isEmpty {
            try checkNothingReads(Array(overlay.byName.values), .schemaChange)
            return try overlay.suspended { try runStatement(prepared, onStart, onRow) }
        }
        if !prepared.route.substitutes.isEmpty {
            return try protected { for sql in prepared.route.substitutes { try overlay.execute(sql) } }
        }
        if refused.isEmpty {
            try runStatement(prepared, onStart, onRow)
            if prepared.route.changesAttachedFiles { try overlay.attachedFiles.admit() }
            return
        }
        try protected {
            try runStatement(prepared, onStart, onRow)
            try overlay.unnoticed { for row in refused { try row.table.discard(row.key) } }
            overlay.reportChanges(overlay.changes + Int64(refused.count))
        }
    }

    private func runStatement(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        let statement = prepared.statement
        let isWrite = prepared.route.role == .write
        if isWrite {
            try overlay.settleChanges()
            runningWrites += 1
        }
        defer { if isWrite { runningWrites -= 1 } }
        try deferForeignKeys(defersForeignKeys)
        defer {
            statement.reset()
            if isWrite, !overlay.watch.isStopped { overlay.noteChanges() }
        }
        var hasRow = false
        if prepared.route.role == .begin {
            try begin { _ = try overlay.watch.beginning(prepared.route) { try statement.step() } }
        } else {
            hasRow = try overlay.watch.beginning(prepared.route) { try statement.step() }
        }
        if overlay.watch.hasPreparedAnew {
            statement.refreshColumns()
            // It holds a snapshot of the file that has changed.
            if prepared.route.role == .query, !connection.isInTransaction { try overlay.attachedFiles.check() }
            // What was made of both sides may be of another shape by now.
            if prepared.route.role == .query, let id = prepared.route.redirected {
                try overlay.tables.byID[id]?.knownSource.confirm()
            }
        }
        onStart(statement)
        while hasRow {
            guard try onRow(statement) else { return try statement.checkValuesRead() }
            hasRow = try statement.step()
        }
    }

    /// Begins the application's own transaction. Where BEGIN IMMEDIATE and EXCLUSIVE would lock every attached file (before
    /// SQLite 3.28), they fail for a source, which is read alone; what they are meant for is the target's lock.
    private func begin(_ statement: () throws -> Void) throws {
        do {
            try statement()
        } catch let error as SQLiteError where error.code == .readOnly {
            // In a transaction, any BEGIN fails as it would natively.
            if connection.isInTransaction { return try connection.execute("BEGIN") }
            guard !overlay.isEmpty else { throw error }
            try beginWriting()
        }
    }

    /// Runs promotions in a savepoint, so that one that fails half way leaves nothing behind.
    func protected(_ body: () throws -> Void) throws {
        let isOutermost = !connection.isInTransaction
        do {
            try connection.execute("SAVEPOINT midstream_promotion")
        } catch {
            guard ResultCode.busy ~= error.code, connection.isInTransaction || runningWrites > 0 else { throw error }
            // There is none while something writes, a blob's handle say. Each row is promoted whole all the same.
            return try body()
        }
        do {
            try body()
            try connection.execute("RELEASE midstream_promotion")
        } catch {
            connection.undoSavepoint("midstream_promotion", isOutermost: isOutermost)
            throw error
        }
    }

    /// Promotes the pending rows that the statement means. The application sees nothing of it.
    ///
    /// - Returns: Those that the target does not take, where the statement deletes them.
    private func promote(_ prepared: Prepared) throws -> [RefusedDelete] {
        guard let keys = prepared.keys else { return [] }
        do {
            try promote(prepared, keys) { try $0.promoteIfPending($1, $2) }
            return []
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            return try promoteRefused(prepared, keys, error)
        }
    }

    /// Has CHECK constraints hold again, after they were ignored for rows that are promoted.
    private func enforceChecks() throws {
        guard ignoresChecks else { return }
        try connection.execute("PRAGMA ignore_check_constraints = 0")
        ignoresChecks = false
    }

    /// Brings rows into the target that its constraints do not take, so that the application can mend or delete them: in
    /// a table that is whole it could.
    private func promoteRefused(_ prepared: Prepared, _ keys: Statement, _ error: SQLiteError) throws
        -> [RefusedDelete]
    {
        if error.code == .constraintCheck, !connection.hasBusyStatement {
            // The pragma expires statements, so none may be running.
            ignoresChecks = true
            try connection.execute("PRAGMA ignore_check_constraints = 1")
            defer { try? enforceChecks() }
            do {
                try promote(prepared, keys) { try $0.promoteIfPending($1, $2) }
                return []
            } catch let other as SQLiteError where ResultCode.constraint ~= other.code && prepared.route.isPlainDelete {
            }
        }
        guard prepared.route.isPlainDelete else { throw error }
        var refused: [RefusedDelete] = []
        try promote(prepared, keys) { table, key, state in
            do {
                try table.promoteIfPending(key, state)
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                // Of one table: what holds for the first row holds for all.
                guard try !refused.isEmpty || overlay.deletesUnseen(from: table) else { throw error }
                refused.append(RefusedDelete(table: table, key: key))
            }
        }
        return refused
    }

    private func promote(
        _ prepared: Prepared,
        _ keys: Statement,
        _ promoteRow: (MovingTable, RowKey, LiveState) throws -> Void
    ) throws {
        defer { keys.reset() }
        try overlay.unnoticed {
            switch prepared.route.preparation {
            case .promote(let id, _):
                guard let table = overlay.tables.byID[id] else { return }
                let feeds = table.feeds
                guard try feeds.contains(where: { try $0.state().lowerBound != nil }) else { return }
                try forEachKey(of: prepared, keys) {
                    let key = table.key.read(keys)
                    for feed in feeds { try promoteRow(feed, key, feed.state()) }
                }
            case .collect(let id, _):
                guard let table = overlay.tables.byID[id] else { return }
                try collect(prepared, keys, table)
                for feed in table.feeds {
                    let state = try feed.state()
                    guard state.lowerBound != nil else { continue }
                    let collected = try overlay.statements.statement(KeyCollection(table).all)
                    defer { collected.reset() }
                    while try collected.step() { try promoteRow(feed, table.key.read(collected), state) }
                }
            case .none: break
            }
        }
    }

    private func collect(_ prepared: Prepared, _ keys: Statement, _ table: MovingTable) throws {
        let before = connection.totalChanges
        defer { overlay.statements.internalChanges += connection.totalChanges - before }
        let collection = KeyCollection(table)
        try overlay.statements.statement(collection.clear).run()
        let insert = try overlay.statements.statement(collection.insert)
        try forEachKey(of: prepared, keys) {
            try insert.bind(table.key.read(keys), at: 1)
            try insert.run()
        }
    }

    /// Goes through the keys, by the application's own clauses: SQLite may prepare them anew when they begin to run.
    private func forEachKey(of prepared: Prepared, _ keys: Statement, _ body: () throws -> Void) throws {
        var hasKey = try overlay.watch.beginning(prepared.route.ofKeys) { try keys.step() }
        while hasKey {
            try body()
            hasKey = try keys.step()
        }
    }

    // MARK: After a statement

    private func finished(_ prepared: Prepared) {
        if prepared.route.role == .rollback || !prepared.beginsTransaction && !connection.isInTransaction {
            overlay.statements.rollbacks += 1
        }
        switch prepared.route.role {
        case .rollback:
            if connection.isInTransaction { try? overlay.restoreAfterRollback() }
        case .other: onSchemaChange?()
        case .begin, .savepoint, .query, .write, .end: break
        }
        if !connection.isInTransaction { freshTransaction = nil }
        if defersForeignKeys || prepared.route.mayDeferForeignKeys {
            defersForeignKeys = !connection.isInTransaction && areForeignKeysDeferred
        }
        if prepared.route.unsettlesOverlay { overlay.forgetSchemaVersion() }
    }

    // MARK: Deferred foreign keys

    /// SQLite ends this when a statement that reads a file ends outside transactions, be it one of the engine's own.
    private var areForeignKeysDeferred: Bool {
        (try? connection.fetchValue(Int64.self, "PRAGMA defer_foreign_keys")) == 1
    }

    /// Sets it again, if the application has. The pragma expires statements, so none may be running.
    private func deferForeignKeys(_ isWanted: Bool) throws {
        if isWanted, !connection.hasBusyStatement { try connection.execute("PRAGMA defer_foreign_keys = 1") }
    }

    // MARK: Draining

    private func drain(_ ids: Set<Int64>, _ reason: MigrationStatistics.Reason, for sql: String) throws {
        let tables = overlay.groups(of: ids)
        let names = tables.map(\.name)
        try checkNothingReads(tables, reason)
        guard kind != .borrowed else {
            throw refusal(
                reason,
                names,
                "this connection cannot see to: run it through a Database that opens the same file"
            )
        }
        guard !tables.contains(where: { $0.feeds.contains(where: \.isReturning) }) else {
            throw refusal(reason, names, "cannot be while they return to their source: run it when they have")
        }
        if let destination = tables.flatMap(\.feeds).compactMap(\.destination).first {
            throw refusal(reason, names, "cannot be while they move on to \(destination): run it when they have")
        }
        guard kind == .writer else {
            throw refusal(reason, names, "a reader cannot see to: run it in a write block, or when the table has moved")
        }
        if connection.isInTransaction {
            if freshTransaction != nil { try lockFreshTransaction() }
            freshTransaction = nil
            do {
                try overlay.unnoticed { try protected { try drainHere(ids) } }
            } catch {
                if connection.isInTransaction { try? overlay.restoreAfterRollback() }
                overlay.forgetSchemaVersion()
                throw error
            }
        } else {
            try beginWriting()
            do {
                guard try overlay.isOfSchema() else {
                    // Another process has changed what moves. The caller looks again what it needs.
                    try connection.rollBack()
                    return try overlay.refresh()
                }
                try overlay.unnoticed { try drainHere(ids) }
                try connection.execute("COMMIT")
            } catch {
                try? connection.rollBack()
                overlay.forgetSchemaVersion()
                throw error
            }
            try overlay.refresh()
        }
        counters.noteDrain(of: names, reason)
        onDrain?(names, sql)
    }

    /// Makes the overlay anew, and drains what it cannot be made for. Outside transactions.
    private func refreshOverlay() throws {
        try overlay.refresh()
        while true {
            let (tables, reason) = overlay.needsDraining
            if tables.isEmpty { return }
            try drain(tables, reason, for: "CREATE TEMP")
        }
    }

    private func checkNothingReads(_ tables: [MovingTable], _ reason: MigrationStatistics.Reason) throws {
        guard let table = tables.flatMap(\.feeds).first(where: { $0.openCursors > 0 }) else { return }
        throw refusal(
            reason,
            [table.name],
            "cannot be done while another statement reads them: run it when that has ended"
        )
    }

    private func refusal(_ reason: MigrationStatistics.Reason, _ tables: [String], _ why: String) -> MigrationError {
        if !isRepeated { counters.noteRefusal(reason) }
        return MigrationError(
            .refusedStatement,
            "for \(reason.construct), the statement needs the rows of \(tables.joined(separator: ", ")) in one place, "
                + "which \(why)",
            table: tables.first,
            reason: reason
        )
    }

    /// Moves the rest of the tables.
    private func drainHere(_ ids: Set<Int64>) throws {
        let before = connection.totalChanges
        defer { overlay.statements.internalChanges += connection.totalChanges - before }
        // A row that is moved breaks no foreign key that it did not break before. Unlike the pragma, this works within a
        // transaction, and leaves what the transaction has broken itself as it is.
        let enforces = try enforcesForeignKeys()
        if enforces { try connection.configure(.foreignKeys, false) }
        defer { if enforces { try? connection.configure(.foreignKeys, true) } }
        let store = StateStore(connection: connection)
        for table in overlay.groups(of: ids) {
            for feed in table.feeds {
                guard let record = try store.table(feed.id), record.phase == .copying else { continue }
                let mover = RowMover(statements: overlay.statements, sql: feed.sql)
                try withoutTriggers(of: table, unlessFired: feed) { _ = try mover.moveRest(record) }
                guard let moved = try store.table(feed.id) else { continue }
                let (rows, hashes) = try mover.countSource(moved)
                try mover.complete(moved, counted: rows, hashed: hashes)
            }
            try overlay.removeDrained(table)
        }
    }

    /// Moves rows with triggers off, unless they are to fire. That expires statements, so none may be running; then the
    /// watch leaves their programs empty, as far as it can.
    private func withoutTriggers(of table: MovingTable, unlessFired feed: MovingTable, _ move: () throws -> Void) throws
    {
        if feed.sql.firesTriggers { return try move() }
        if connection.hasBusyStatement {
            guard !overlay.watch.triggers.unsilenced.contains(table.id) else {
                throw refusal(
                    .program,
                    [table.name],
                    "cannot be done while another statement runs: run it when that has ended"
                )
            }
            return try move()
        }
        try connection.configure(.triggers, false)
        defer { try? connection.configure(.triggers, true) }
        try move()
    }

    // MARK: Transactions of blocks

    /// Runs `body` with what is refused left uncounted, since the caller runs it elsewhere then.
    func repeatedElsewhere<Result>(_ body: (DatabaseAccess) throws -> Result) rethrows -> Result {
        isRepeated = true
        defer { isRepeated = false }
        return try body(self)
    }

    /// Holds the gate while `body` runs, and for as long as a transaction is open after it.
    private func insideGate<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let gate, !isInside else { return try body() }
        // Within the gate it would keep out whoever makes the steps.
        overlay.awaitReturn()
        gate.enter()
        isInside = true
        defer { leaveGateIfIdle() }
        return try body()
    }

    private func leaveGateIfIdle() {
        guard isInside, !isInBlock, !connection.isInTransaction else { return }
        isInside = false
        gate?.leave()
    }

    /// Begins a transaction that holds the target's write lock, and no other file's.
    private func beginWriting() throws {
        do {
            try takeWriteLock()
        } catch let error as SQLiteError where error.code == .readOnly && !connection.isInTransaction {
            // Before 3.28 BEGIN IMMEDIATE fails where a source is attached, be it needed no longer.
            try overlay.refresh()
            try takeWriteLock()
        }
    }

    private func takeWriteLock() throws {
        if overlay.isEmpty {
            try connection.execute("BEGIN IMMEDIATE")
        } else {
            try overlay.unnoticed { try WriteLock.begin(connection) }
        }
    }

    /// Runs `body` in a transaction whose snapshot the overlay fits.
    func withTransaction<Result>(_ body: (DatabaseAccess) throws -> Result) throws -> Result {
        guard !isInBlock, !connection.isInTransaction else {
            throw MigrationError(.misuse, "a transaction is already open on this connection")
        }
        return try insideGate {
            try beginBlock()
            try deferForeignKeys(defersForeignKeys)
            defersForeignKeys = false
            overlay.forgetState()
            isInBlock = true
            lostTransaction = nil
            defer { lostTransaction = nil }
            do {
                let result = try body(self)
                // The block may have caught the error.
                if connection.isHalfUndone { noteLost(nil) }
                if let lostTransaction { throw lostTransaction }
                isInBlock = false
                if connection.isInTransaction { try commitOrRollBack() }
                afterBlock()
                return result
            } catch {
                isInBlock = false
                try? connection.rollBack()
                afterBlock()
                throw error
            }
        }
    }

    private func afterBlock() {
        freshTransaction = nil
        if overlay.schemaVersion == nil { onSchemaChange?() }
    }

    private func beginBlock() throws {
        func begin() throws {
            while try !beginIfCurrent() { try refreshOverlay() }
        }
        if kind == .writer { return try begin() }
        try HotJournal.rollingBack(of: connection.path, keys.target, begin)
    }

    /// Begins a transaction, unless the overlay does not fit its snapshot.
    private func beginIfCurrent() throws -> Bool {
        try overlay.attachedFiles.check()
        if kind == .writer { try beginWriting() } else { try connection.execute("BEGIN") }
        do {
            if try overlay.isCurrent() { return true }
            try connection.rollBack()
            return false
        } catch {
            try? connection.rollBack()
            throw error
        }
    }

    /// Rolls back what a block without a transaction of its own has left open, or what could not be rolled back before for
    /// want of memory.
    func endUnattended() {
        try? connection.rollBack()
        if !connection.isInTransaction { lostTransaction = nil }
        freshTransaction = nil
        leaveGateIfIdle()
    }
}
