internal import SQLText
internal import SQLiteConnection

/// The migration's state in the target file.
///
/// Everything that decides where a row is is stored here, and commits with the target's own rows. `Docs/FileFormat.md` describes
/// the tables.
struct StateStore {
    /// The format that this version writes, and the only one that it reads.
    static let format: Int64 = 1
    /// The tables that exist while anything moves.
    private static let tables = [OwnNames.state, OwnNames.migrations, OwnNames.tables, OwnNames.columns]

    /// The table of what was checked of tables that are about to move.
    static let beginnings = OwnNames.beginnings

    /// The table of what the application gives up of sources. It exists only if something is given up.
    static let givenUp = OwnNames.givenUp

    let connection: Connection
    /// The schema under which the file is attached.
    var schema = "main"

    /// Whether the file has migrations.
    func exists() throws -> Bool { try exists("midstream_state") }

    /// Whether the file has a table of Midstream's.
    func exists(_ table: String) throws -> Bool {
        if let known = try connection.knownSchema(SQLIdentifier.unquoted(schema)) { return Self.has(table, known) }
        let sql = "SELECT 1 FROM \(schema).sqlite_master WHERE type = 'table' AND name = ?"
        return try connection.fetchOne(sql, [table]) != nil
    }

    private static func has(_ table: String, _ known: KnownSchema) -> Bool {
        known.objects(named: table).contains { $0.type == "table" && $0.name.hasSameBytes(as: table) }
    }

    /// Creates the tables, in the open transaction.
    func create() throws {
        if try exists() { return }
        try connection.execute(
            script: """
                CREATE TABLE \(schema).midstream_state(format INTEGER NOT NULL);
                CREATE TABLE \(schema).midstream_migrations(
                    id INTEGER PRIMARY KEY, source TEXT, target_version INTEGER, source_version INTEGER);
                CREATE TABLE \(schema).midstream_tables(
                    id INTEGER PRIMARY KEY, migration INTEGER NOT NULL, target TEXT NOT NULL COLLATE NOCASE,
                    source TEXT NOT NULL, condition TEXT, phase INTEGER NOT NULL, watermark INTEGER, ceiling INTEGER,
                    copied INTEGER NOT NULL DEFAULT 0, settled INTEGER NOT NULL DEFAULT 0, total INTEGER,
                    refused_rows INTEGER NOT NULL DEFAULT 0, refused_rows_table TEXT,
                    verification INTEGER NOT NULL DEFAULT 1, checksum INTEGER NOT NULL DEFAULT 0,
                    undo_stage INTEGER, fires_triggers INTEGER NOT NULL DEFAULT 0,
                    unreadable_rows INTEGER NOT NULL DEFAULT 0, unreadable_rows_table TEXT,
                    retirement TEXT NOT NULL DEFAULT 'keep');
                CREATE TABLE \(schema).midstream_columns(
                    id INTEGER NOT NULL, name TEXT NOT NULL, origin TEXT NOT NULL, is_expression INTEGER NOT NULL,
                    PRIMARY KEY (id, name)) WITHOUT ROWID;
                """
        )
        try connection.execute("INSERT INTO \(schema).midstream_state(format) VALUES (?)", [Self.format])
    }

    /// Drops the tables, in the open transaction.
    func drop() throws {
        for table in Self.tables {
            try connection.execute("DROP TABLE \(schema).\(table)")
        }
        for table in [
            Returns.table, Self.beginnings, Self.givenUp, KeptRowIDs.table, Stops.table, BuildStore.table,
            BuildStore.cursors,
        ] {
            try connection.execute("DROP TABLE IF EXISTS \(schema).\(table)")
        }
    }

    // MARK: Tables that are about to move

    /// Notes what was checked of a table that is about to move.
    ///
    /// - Parameter file: The file that has the source, by ``FilePath/lastingIdentity(_:)``.
    func save(_ definitions: Definitions, in file: String?, of record: TableRecord) throws {
        try connection.execute(
            """
            CREATE TABLE IF NOT EXISTS \(schema).\(Self.beginnings)(
                id INTEGER PRIMARY KEY, target TEXT, source TEXT, file TEXT)
            """
        )
        try connection.execute(
            "INSERT INTO \(schema).\(Self.beginnings)(id, target, source, file) VALUES (?, ?, ?, ?)",
            [record.id, definitions.target, definitions.source, file]
        )
    }

    /// The file that had the source when the table was checked, by ``FilePath/lastingIdentity(_:)``; `nil` if it is not noted.
    func sourceFile(of record: TableRecord) throws -> String? {
        try connection.holdingSnapshots(of: [schema]) {
            guard try exists(Self.beginnings) else { return nil }
            return try connection.fetchValue("SELECT file FROM \(schema).\(Self.beginnings) WHERE id = ?", [record.id])
        }
    }

    /// What was checked of a table that is about to move; `nil` if it is not noted.
    func definitions(of record: TableRecord) throws -> Definitions? {
        guard try exists(Self.beginnings) else { return nil }
        return try connection.fetchOne(
            "SELECT target, source FROM \(schema).\(Self.beginnings) WHERE id = ?",
            [record.id]
        ).map { Definitions(target: try $0.get(0), source: try $0.get(1)) }
    }

    /// Removes the note of what was checked. The table has begun to move, or will not.
    func forgetDefinitions(of record: TableRecord) throws {
        guard try exists(Self.beginnings) else { return }
        try connection.execute("DELETE FROM \(schema).\(Self.beginnings) WHERE id = ?", [record.id])
        let isLast = try connection.fetchOne("SELECT 1 FROM \(schema).\(Self.beginnings) LIMIT 1") == nil
        if isLast { try connection.execute("DROP TABLE \(schema).\(Self.beginnings)") }
    }

    // MARK: Reading

    /// Reads all migrations and tables; nothing if the file has no migrations.
    ///
    /// - Throws: ``MigrationError`` if another version of Midstream wrote the file in another format.
    func load() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        if let known = try connection.knownSchema(SQLIdentifier.unquoted(schema)),
            !Self.has("midstream_state", known), !Self.has("midstream_tables", known)
        {
            return ([], [])
        }
        return try inSnapshot { try loadHere() }
    }

    /// Runs `body` in one snapshot: another process may end the last migration meanwhile, and drop the tables.
    private func inSnapshot<Result>(_ body: () throws -> Result) throws -> Result {
        if connection.isInTransaction { return try body() }
        return try connection.readingTransaction(body)
    }

    private func loadHere() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        let names = try ownNames(["midstream_state", "midstream_tables", "midstream_claims", Self.givenUp, Stops.table])
        guard names.contains("midstream_state") else {
            if names.contains("midstream_tables") { throw Self.isIncomplete }
            return ([], [])
        }
        let claims = names.contains("midstream_claims") ? try Claims.all(in: schema, connection) : []
        let format: Int64? = try connection.fetchValue("SELECT format FROM \(schema).midstream_state")
        guard format == Self.format else {
            throw MigrationError(
                .foreignState,
                "the migration in this file has format \(format.map(String.init) ?? "unknown"), and this version of "
                    + "Midstream reads format \(Self.format): open the file with the version that began the migration"
            )
        }
        let givenUp = names.contains(Self.givenUp) ? try givenUpNames() : [:]
        let columns = try columns()
        let tables = try connection.mapRows(
            "SELECT \(Self.tableColumns) FROM \(schema).midstream_tables ORDER BY rowid"
        ) { try tableRecord($0, columns: columns[$0.int64(at: 0)] ?? []) }
        let tablesOfMigrations = Dictionary(grouping: tables, by: \.migration)
        let migrations = try connection.fetchAll("SELECT id, source FROM \(schema).midstream_migrations ORDER BY rowid")
            .map { row in
                let id: Int64 = try row.get(0)
                return MigrationRecord(
                    id: id,
                    sourcePath: try row.get(1),
                    deletesFile: tablesOfMigrations[id]?.allSatisfy { $0.retirement == .deleteFileWhenEmpty } ?? false,
                    givenUp: givenUp[id] ?? []
                )
            }
        let known = Set(migrations.map(\.id))
        if try tables.isEmpty && hasGuards()
            || tables.contains(where: { $0.phase != .done && !known.contains($0.migration) })
        {
            throw Self.isIncomplete
        }
        let stops = names.contains(Stops.table) ? try Stops(connection: connection, schema: schema).all() : [:]
        // If another file has claimed a table, the moves into that table are that file's from then on, and are left as they are.
        let records = tables.map { record in
            var record = record
            record.stop = stops[record.id]
            if record.phase == .copying { record.destination = Self.destination(of: record.target, claims) }
            return record
        }
        return (migrations, records)
    }

    /// Those of the named tables that exist. It reads the schema once for all of them, since the schema may have thousands of
    /// tables.
    private func ownNames(_ names: [String]) throws -> [String] {
        if let known = try connection.knownSchema(SQLIdentifier.unquoted(schema)) {
            return names.filter { Self.has($0, known) }
        }
        let list = names.map(SQLLiteral.quoted).joined(separator: ", ")
        return try connection.fetchAll(
            "SELECT name FROM \(schema).sqlite_master WHERE type = 'table' AND name IN (\(list))"
        ).map { try $0.get(0) }
    }

    /// Whether the file has triggers of moving tables.
    ///
    /// - Parameter id: Looks only for a trigger of this move; `nil` for any move.
    func hasGuards(of id: Int64? = nil) throws -> Bool {
        try connection.fetchAll("SELECT name FROM \(schema).sqlite_master WHERE type = 'trigger'").contains {
            let name = try $0.get(0, as: String.self)
            return id.map { name == MoveSQL.trigger("insert", $0) }
                ?? (OwnNames.isTrigger(name) && name.hasPrefix("midstream_insert_"))
        }
    }

    static let isIncomplete = MigrationError(
        .foreignState,
        "tables are moving into this file, but a program without Midstream has deleted Midstream's record of the "
            + "moves: restore the file from a backup, together with its sources"
    )

    /// The table of another file that takes the rows of a table of this file, as an error names it. `nil` if there is none, or if
    /// that other table has all rows already.
    func destination(of table: String) throws -> String? {
        Self.destination(of: table, try Claims.all(in: schema, connection))
    }

    static func destination(of table: String, _ claims: [Claims.Claim]) -> String? {
        claims.first { $0.moved == nil && SQLIdentifier.equal($0.sourceTable, table) }?.destination
    }

    private static let tableColumns =
        "id, migration, target, source, condition, phase, watermark, ceiling, copied, settled, total, "
        + "checksum, verification, refused_rows, refused_rows_table, undo_stage, fires_triggers, "
        + "unreadable_rows, unreadable_rows_table, retirement"

    private func tableRecord(_ row: Statement, columns: [ColumnRecord]) throws -> TableRecord {
        TableRecord(
            id: try row.read(at: 0),
            migration: try row.read(at: 1),
            target: try row.read(at: 2),
            source: try row.read(at: 3),
            condition: try row.read(at: 4),
            columns: columns,
            phase: MigrationPhase(rawValue: try row.read(at: 5)) ?? .copying,
            watermark: try row.read(at: 6),
            ceiling: try row.read(at: 7),
            copied: try row.read(at: 8),
            settled: try row.read(at: 9),
            total: try row.read(at: 10),
            checksum: try row.read(at: 11),
            verification: MigrationVerification(rawValue: try row.read(at: 12)) ?? .batches,
            retirement: SourceRetirement(rawValue: try row.read(at: 19)) ?? .keep,
            refusedRows: RefusedRowPolicy.Stored(rawValue: try row.read(at: 13)) ?? .stop,
            refusedRowsTable: try row.read(at: 14),
            undoStage: try row.read(at: 15),
            firesTriggers: try row.read(Int64.self, at: 16) != 0,
            unreadableRows: UnreadableRowPolicy(rawValue: try row.read(at: 17)) ?? .stop,
            unreadableRowsTable: try row.read(at: 18)
        )
    }

    /// The column records of all tables, by the tables' ids.
    private func columns() throws -> [Int64: [ColumnRecord]] {
        var columns: [Int64: [ColumnRecord]] = [:]
        for row in try connection.fetchAll(
            "SELECT id, name, origin, is_expression FROM \(schema).midstream_columns ORDER BY id, name"
        ) {
            let text: String = try row.get(2)
            let origin: ColumnRecord.Origin =
                switch row[3] {
                case .integer(0): .column(text)
                case .integer(2): .left
                default: .expression(text)
                }
            columns[try row.get(0), default: []].append(ColumnRecord(name: try row.get(1), origin: origin))
        }
        return columns
    }

    /// Reads one table's state; `nil` if its move is over and forgotten. The record has no columns: these are read once, and not
    /// with each batch.
    func table(_ id: Int64) throws -> TableRecord? {
        do {
            return try connection.mapRows(
                "SELECT \(Self.tableColumns) FROM \(schema).midstream_tables WHERE id = ?",
                [id]
            ) { try tableRecord($0, columns: []) }.first
        } catch let error as SQLiteError where error.isMissingTable {
            return nil
        }
    }

    /// Writes the whole state of a table.
    func save(_ record: TableRecord) throws {
        try connection.execute(
            """
            INSERT OR REPLACE INTO \(schema).midstream_tables(\(Self.tableColumns))
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                record.id, record.migration, record.target, record.source, record.condition, record.phase.rawValue,
                record.watermark, record.ceiling, record.copied, record.settled, record.total,
                record.checksum, record.verification.rawValue, record.refusedRows.rawValue, record.refusedRowsTable,
                record.undoStage, Int64(record.firesTriggers ? 1 : 0), record.unreadableRows.rawValue,
                record.unreadableRowsTable, record.retirement.rawValue,
            ]
        )
        for column in record.columns {
            let (origin, kind): (String, Int64) =
                switch column.origin {
                case .column(let name): (name, 0)
                case .expression(let text): (text, 1)
                case .left: ("", 2)
                }
            try connection.execute(
                "INSERT OR REPLACE INTO \(schema).midstream_columns(id, name, origin, is_expression) VALUES (?, ?, ?, ?)",
                [record.id, column.name, origin, kind]
            )
        }
    }

    /// Whether the rows of all tables have arrived, so that a program that reads the file finds them there.
    func isWhole() throws -> Bool {
        let unfinished = try connection.fetchOne(
            "SELECT 1 FROM \(schema).midstream_tables WHERE phase < ? LIMIT 1",
            [MigrationPhase.copied.rawValue]
        )
        return unfinished == nil
    }

    /// Whether some tables of a migration are not done.
    ///
    /// - Returns: `nil` if the file has no migrations.
    func isUnfinished(_ migration: MigrationRecord) throws -> Bool? {
        try inSnapshot {
            guard try exists() else { return nil }
            return try connection.fetchOne(
                "SELECT 1 FROM \(schema).midstream_tables WHERE migration = ? AND phase < ? LIMIT 1",
                [migration.id, MigrationPhase.done.rawValue]
            ) != nil
        }
    }

    /// The targets of tables that are not done, in lower case.
    func unfinishedTargets() throws -> Set<String> {
        try inSnapshot {
            guard try exists() else { return [] }
            return Set(
                try connection.mapRows(
                    "SELECT target FROM \(schema).midstream_tables WHERE phase < ?",
                    [MigrationPhase.done.rawValue]
                ) { SQLIdentifier.lowercased(try $0.read(at: 0)) }
            )
        }
    }

    /// Drops all state if no table moves any more, in the open transaction.
    func dropIfOver() throws {
        let unfinished = try connection.fetchOne(
            "SELECT 1 FROM \(schema).midstream_tables WHERE phase < ? LIMIT 1",
            [MigrationPhase.done.rawValue]
        )
        if unfinished == nil { try drop() }
    }

    /// Removes a table that has not begun to move, or has returned. Removes its migration if that has no other table, and all state
    /// if every other table is done.
    func remove(_ record: TableRecord) throws {
        try forgetDefinitions(of: record)
        let rowIDs = KeptRowIDs(connection: connection, schema: schema)
        try rowIDs.forget(record.id)
        try rowIDs.dropUnneeded()
        try Stops(connection: connection, schema: schema).forget(record.id)
        try UnfencedClaims(connection: connection, schema: schema).remove(record.id)
        try BuildStore(connection: connection, schema: schema).drop(record.id)
        for trigger in BeginningGuard.drop(record, in: schema) { try connection.execute(trigger) }
        for table in [record.ledger, record.watermarkTable] {
            try connection.execute("DROP TABLE IF EXISTS \(schema).\(table)")
        }
        try connection.execute("DELETE FROM \(schema).midstream_tables WHERE id = ?", [record.id])
        try connection.execute("DELETE FROM \(schema).midstream_columns WHERE id = ?", [record.id])
        try connection.execute(
            "DELETE FROM \(schema).midstream_migrations WHERE id = ?1 "
                + "AND NOT EXISTS (SELECT 1 FROM \(schema).midstream_tables WHERE migration = ?1)",
            [record.migration]
        )
        try dropIfOver()
    }

    /// Removes the moves into a table that still have rows to come. Another file has taken these moves over together with the
    /// table.
    func removeMoves(into table: String) throws {
        for record in try load().tables where record.phase == .copying && SQLIdentifier.equal(record.target, table) {
            for trigger in MoveSQL.dropTriggers(record.id, in: schema) { try connection.execute(trigger) }
            try remove(record)
        }
    }

    /// Stores a migration.
    func save(_ record: MigrationRecord) throws {
        try connection.execute(
            "INSERT OR REPLACE INTO \(schema).midstream_migrations(id, source) VALUES (?, ?)",
            [record.id, record.sourcePath]
        )
        try saveGivenUp(record)
    }

    /// Stores what a migration gives up.
    private func saveGivenUp(_ record: MigrationRecord) throws {
        if try exists(Self.givenUp) {
            try connection.execute("DELETE FROM \(schema).\(Self.givenUp) WHERE migration = ?", [record.id])
        } else if record.givenUp.isEmpty {
            return
        } else {
            try connection.execute(
                "CREATE TABLE \(schema).\(Self.givenUp)(migration INTEGER NOT NULL, name TEXT NOT NULL)"
            )
        }
        for name in record.givenUp.sorted() {
            let sql = "INSERT INTO \(schema).\(Self.givenUp)(migration, name) VALUES (?, ?)"
            try connection.execute(sql, [record.id, name])
        }
    }

    private func givenUpNames() throws -> [Int64: Set<String>] {
        var names: [Int64: Set<String>] = [:]
        for row in try connection.fetchAll("SELECT migration, name FROM \(schema).\(Self.givenUp)") {
            names[try row.get(0), default: []].insert(try row.get(1))
        }
        return names
    }

    /// How many rows the ledger has: rows that statements settled and the stepper has yet to pass.
    func ledgerCount(_ record: TableRecord) throws -> Int64 {
        do {
            return try connection.fetchValue("SELECT count(*) FROM main.\(record.ledger)") ?? 0
        } catch {
            guard error.isMissingTable else { throw error }
            return 0
        }
    }
}

/// Takes the write lock of one file, and of no other.
///
/// `BEGIN IMMEDIATE` would lock every attached file that can be written. Another connection may hold the lock of a source and wait
/// for that of `main`. A statement that changes nothing locks only its own file. As the first statement of a transaction, it
/// honours the busy handler. SQLite does not call the busy handler when it writes a file that it has read in the transaction
/// before.
///
/// Source: <https://www.sqlite.org/c3ref/busy_handler.html>.
enum WriteLock {
    /// Takes the lock in the open transaction.
    ///
    /// - Parameter table: A table of the schema, by which the lock is taken.
    static func take(_ connection: Connection, by table: String, in schema: String) throws(SQLiteError) {
        try connection.execute(
            "DELETE FROM \(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(table)) WHERE 0"
        )
    }

    /// Begins a transaction that holds the write lock of `main`.
    static func begin(_ connection: Connection) throws {
        try connection.execute("BEGIN")
        do {
            do {
                try take(connection, by: "midstream_state", in: "main")
            } catch {
                guard error.isMissingTable else { throw error }
                try takeWithoutState(connection)
            }
        } catch {
            try? connection.rollBack()
            throw error
        }
    }

    /// Takes the lock if there is no migration, or if another process has just ended the last one. The pragma needs no table and
    /// does hardly anything: in a file with incremental vacuum, it gives back one free page.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_incremental_vacuum>.
    private static func takeWithoutState(_ connection: Connection) throws {
        let hasLock: Bool
        do {
            try connection.execute("PRAGMA main.incremental_vacuum(1)")
            // SQLite may be built without this pragma.
            hasLock = connection.isWriting ?? true
        } catch {
            guard ResultCode.corrupt ~= error.code else { throw error }
            // The map of free pages is damaged. Only this pragma reads it.
            hasLock = false
        }
        if !hasLock {
            try connection.rollBack()
            try connection.execute("BEGIN IMMEDIATE")
        }
    }
}
