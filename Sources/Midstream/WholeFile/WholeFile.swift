internal import SQLText
internal import SQLiteConnection

/// What moving a whole file needs besides the migration of its tables.
enum WholeFile {
    /// Makes a file with all of another file's schema, in one transaction. A process that dies half way leaves no file,
    /// or an empty one that is made anew.
    ///
    /// - Returns: The objects that were made; `nil` if the file already has objects, even if another process has just
    ///   made them.
    static func create(
        _ path: String,
        _ key: EncryptionKey?,
        from sourcePath: String,
        _ sourceKey: EncryptionKey?
    ) throws -> Set<String>? {
        try Database.openingOneThatOthersMake(path) { try make(path, key, from: sourcePath, sourceKey) }
    }

    private static func make(
        _ path: String,
        _ key: EncryptionKey?,
        from sourcePath: String,
        _ sourceKey: EncryptionKey?
    ) throws -> Set<String>? {
        // If there is a journal, a process may have died while it made the file. Another process may also have opened
        // the file before there was anything in it.
        let hasContent = FilePath.hasContent(path)
        if hasContent, !FilePath.exists(path + "-journal"), try !isEmpty(path, key) { return nil }
        guard FilePath.exists(sourcePath) else {
            if hasContent, try !isEmpty(path, key) { return nil }
            throw MigrationError(
                .sourceUnavailable,
                FilePath.isGone(sourcePath)
                    ? "there is neither a file \(path) nor a file \(sourcePath) to make it from: check the paths"
                    : "\(sourcePath), the source of \(path), cannot be accessed: check the permissions of its folders"
            )
        }
        let source = try open(sourcePath, sourceKey)
        defer { source.close() }
        // An error about what cannot be copied must come before there is a file. Once the file is there, it may not be
        // removed any more, since other processes may have it open and be making it.
        let scratch = try Connection(path: ":memory:")
        defer { scratch.close() }
        try source.transaction { try copySchema(source, scratch) }
        let target = try Connection(path: path, options: OpenOptions(key: key))
        defer { target.close() }
        target.setBusyTimeout(milliseconds: 5000)
        if key == nil, sourceKey == nil {
            let size: Int64 = try source.fetchValue("PRAGMA main.page_size") ?? 4096
            try target.execute("PRAGMA main.page_size = \(size)")
        }
        let encoding: String = try source.fetchValue("PRAGMA main.encoding") ?? "UTF-8"
        try target.execute("PRAGMA main.encoding = '\(encoding)'")
        let vacuum: Int64 = try source.fetchValue("PRAGMA main.auto_vacuum") ?? 0
        try target.execute("PRAGMA main.auto_vacuum = \(vacuum)")
        // This waits for a process that makes the file at the same time.
        try target.execute("BEGIN EXCLUSIVE")
        do {
            guard try objects(target).isEmpty else {
                try target.rollBack()
                return nil
            }
            try source.transaction {
                try copySchema(source, target)
                try target.execute("CREATE TABLE \(WholeFileNote.table)(source TEXT, file TEXT)")
                try target.execute(
                    "INSERT INTO \(WholeFileNote.table)(source, file) VALUES (?, ?)",
                    [summary(of: source), FilePath.lastingIdentity(sourcePath)]
                )
            }
            let made = try objects(target)
            try target.execute("COMMIT")
            return made
        } catch {
            try? target.rollBack()
            throw error
        }
    }

    /// Whether a file has no objects, after a transaction that was cut short has been rolled back.
    private static func isEmpty(_ path: String, _ key: EncryptionKey?) throws -> Bool {
        let connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: key))
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 5000)
        return try connection.readingTransaction { try isEmpty(connection) }
    }

    static func isEmpty(_ connection: Connection) throws -> Bool { try objects(connection).isEmpty }

    /// Opens a source that exists.
    static func open(_ path: String, _ key: EncryptionKey?) throws -> Connection {
        do {
            return try SourceFile.open(path, key)
        } catch let error as SQLiteError {
            // Without the source's path, the caller would take the error for the target's.
            let message = error.message.contains(path) ? error.message : "\(path): \(error.message)"
            throw SQLiteError(code: error.code, message: message, sql: error.sql)
        }
    }

    /// The tables that a file has, and those that it had before their rows moved to another file. Empty if another
    /// process has just deleted the file.
    static func tableNames(_ path: String, _ key: EncryptionKey?, movingTo target: String) throws -> SQLNameSet {
        do {
            let source = try open(path, key)
            defer { source.close() }
            return try source.readingTransaction {
                let target = FilePath.identity(target)
                let claimed = try Claims.all(in: "main", source).filter { claim in
                    let file = FilePath.identity(
                        FilePath.absolute(claim.targetFile, fromFolderOf: FilePath.resolved(path))
                    )
                    return file == nil || file == target
                }.map(\.sourceTable)
                return try SQLNameSet(tableNames(of: source) + claimed)
            }
        } catch {
            if FilePath.isGone(path) { return SQLNameSet([]) }
            guard let error = error as? SQLiteError, ResultCode.cannotOpen ~= error.code else { throw error }
            throw MigrationError(
                .sourceUnavailable,
                "cannot open \(path), whose rows are to move: check the permissions of the file and of its folders",
                cause: error
            )
        }
    }

    /// The tables that move in steps: all except the shadow tables of virtual tables.
    static func tableNames(of source: Connection) throws -> [String] {
        let virtual = try VirtualTables(source, "main")
        return try SchemaReader(connection: source, schema: "main").tableNames().filter { !virtual.isShadow($0) }
    }

    // MARK: What has been copied

    /// A text of all that is copied of a file at once.
    private static func summary(of connection: Connection) throws -> String {
        var parts = try SchemaImage.objects(connection).map { "\($0.type) \($0.name): \($0.sql)" }.sorted()
        for pragma in ["user_version", "application_id"] {
            parts.append("\(try connection.fetchValue(Int64.self, "PRAGMA main.\(pragma)") ?? 0)")
        }
        if try connection.fetchOne("SELECT 1 FROM sqlite_master WHERE name = ?", [OwnNames.upgrades]) != nil {
            parts += try connection.fetchAll("SELECT * FROM \(OwnNames.upgrades)").map { "\($0.values)" }
        }
        return parts.joined(separator: "\n")
    }

    /// Checks whether a source is still what was copied. If it is not, the file is withdrawn.
    ///
    /// - Parameters:
    ///   - finishing: Whether all tables have begun to move. Then none has changed since it was fenced, and the file is
    ///     finished.
    ///   - stepper: The stepper of the new file.
    /// - Returns: Whether the source is still what was copied, or another process has found that it is.
    static func compare(
        _ sourcePath: String,
        _ key: EncryptionKey?,
        finishing: Bool,
        _ stepper: Stepper
    ) throws -> Bool {
        let connection = stepper.connection
        guard case .copied(let copied) = try WholeFileNote.read(connection) else {
            return try WholeFileNote.read(connection) == .none
        }
        if FilePath.isGone(sourcePath) {
            if try WholeFileNote.read(connection) == .none { return true }
            throw missing(sourcePath, connection.fileName(schema: "main") ?? "")
        }
        let source = try open(sourcePath, key)
        defer { source.close() }
        let (isSame, all, fences) = try source.transaction {
            (
                try summary(of: source) == copied,
                try tableNames(of: source),
                try Claims.fences(in: "main", source)
            )
        }
        let tables = SQLNameSet(try stepper.load().tables.filter { $0.phase != .starting }.map(\.target))
        let hasVirtual =
            try finishing && isSame && all.allSatisfy(tables.contains) && fenceVirtualTables(source, copied, stepper)
        if hasVirtual { try SourceFile.attach(sourcePath, as: copySchema, to: connection, access: .readOnly, key) }
        defer { if hasVirtual { try? connection.detach(copySchema) } }
        var result = false
        try stepper.waitingTransaction {
            // Another process may have compared before, and steps may have retired tables since.
            let now = try WholeFileNote.readInTransaction(connection)
            guard now == .copied(copied) else { return result = now == .none }
            let tables = try stepper.load().tables
            let isSwapped = fences.contains { fence in
                tables.contains { $0.id == fence.id && !SQLIdentifier.equal($0.source, fence.table) }
            }
            if !isSame || isSwapped || tables.contains(where: { $0.isReturning }) {
                try WholeFileNote.withdraw(connection)
                return
            }
            if finishing {
                // A table may have had another name when the migration asked for the tables.
                let moving = SQLNameSet(tables.map(\.target))
                guard tables.allSatisfy({ $0.phase != .starting }), all.allSatisfy(moving.contains) else { return }
                try connection.execute("DROP TABLE main.\(WholeFileNote.table)")
                if hasVirtual { try VirtualTables(connection, copySchema).copy() }
            }
            result = true
        }
        return result
    }

    /// The name under which the source is attached while its virtual tables are copied.
    private static let copySchema = "midstream_copied"

    /// Makes the virtual tables of a source refuse writes, if the source is what was copied and all of its other tables
    /// have begun to move.
    ///
    /// - Returns: `false` if the source has no virtual tables, or is not what was copied.
    private static func fenceVirtualTables(_ source: Connection, _ copied: String, _ stepper: Stepper) throws -> Bool {
        if try VirtualTables(source, "main").tables.isEmpty { return false }
        let target = FilePath.resolved(stepper.connection.fileName(schema: "main") ?? "")
        let file = FilePath.relative(target, toFolderOf: FilePath.resolved(source.fileName(schema: "main") ?? ""))
        do {
            let isSame = try source.transaction(.immediate) {
                guard try summary(of: source) == copied else { return false }
                try VirtualTables(source, "main").fence(for: file)
                return true
            }
            try source.sync(schema: "main")
            return isSame
        } catch let error as SQLiteError where SourceFile.cannotWrite(error) {
            // Others cannot write the source either. Its tables have begun to move, so the source is kept.
            return try source.transaction { try summary(of: source) == copied }
        }
    }

    /// Lets the virtual tables of a source be written again, because the new file is taken back.
    ///
    /// - Parameter path: The new file.
    static func unfenceVirtualTables(_ sourcePath: String, _ key: EncryptionKey?, of path: String) throws {
        let source = try open(sourcePath, key)
        defer { source.close() }
        let file = FilePath.relative(FilePath.resolved(path), toFolderOf: FilePath.resolved(sourcePath))
        try source.transaction(.immediate) { try VirtualTables(source, "main").unfence(for: file) }
        try source.sync(schema: "main")
    }

    /// Withdraws a file that was made of another source than the file that is there now, if that file has not been
    /// claimed.
    ///
    /// - Parameter stepper: The stepper of the new file.
    static func checkSource(_ sourcePath: String, _ key: EncryptionKey?, _ stepper: Stepper) throws {
        let connection = stepper.connection
        let file = FilePath.lastingIdentity(sourcePath)
        func isOfAnother() throws -> Bool {
            guard case .copied = try WholeFileNote.readInTransaction(connection) else { return false }
            return try WholeFileNote.copiedFile(connection) != file
        }
        guard try connection.holdingSnapshots(of: ["main"], isOfAnother) else { return }
        let source = try open(sourcePath, key)
        defer { source.close() }
        // A copy of the source has the source's claims.
        let claimed = Set(try Claims.all(in: "main", source).map(\.id))
        try stepper.waitingTransaction {
            guard try isOfAnother(), try !stepper.load().tables.contains(where: { claimed.contains($0.id) }) else {
                return
            }
            try WholeFileNote.withdraw(connection)
        }
    }

    static func missing(_ source: String, _ path: String) -> MigrationError {
        MigrationError(
            .sourceUnavailable,
            "there is no file \(source), from which \(path) was made, and no row has moved yet: restore \(source), or "
                + "delete \(path) to have it made from another file"
        )
    }

    static func changed(_ source: String, _ path: String, cause: SQLiteError? = nil) -> MigrationError {
        MigrationError(
            .sourceChanged,
            "the schema of \(source), or its user_version, was changed while \(path) was made from it: close \(source) "
                + "wherever else it is open, and try again",
            cause: cause
        )
    }

    /// The names of a file's objects, without notes of claims, which outlive the other objects.
    private static func objects(_ connection: Connection) throws -> Set<String> {
        let names = try connection.fetchAll("SELECT name FROM main.sqlite_master").map {
            try $0.get(0, as: String.self)
        }
        return Set(names.filter { !$0.hasPrefix("sqlite_") && $0 != Unreleased.table })
    }

    // MARK: Taking it back

    /// Removes a file that was made and whose migration could not begin. The file stays if anything else has come into
    /// it, or if somebody has it open.
    ///
    /// - Parameters:
    ///   - made: The objects that were made; `nil` if they are not known any more.
    ///   - note: The note that the file must have.
    static func takeBack(_ path: String, _ key: EncryptionKey?, made: Set<String>?, noted note: WholeFileNote) {
        guard let connection = try? Connection(path: path, options: OpenOptions(access: .readWrite, key: key)) else {
            return
        }
        defer { connection.close() }
        // If this fails, the file stays, and the next launch goes on with it.
        _ = try? SourceFile.delete(path, attachedTo: connection, as: "main", lockingBy: WholeFileNote.table) {
            let now = try objects(connection)
            // A table that records moves may record claims as well.
            let isMoving = now.contains { OwnNames.tellsOfRows($0) && $0 != WholeFileNote.table }
            guard now == made ?? now, !isMoving, try WholeFileNote.readInTransaction(connection) == note else {
                return false
            }
            let isEmpty = try SchemaReader(connection: connection, schema: "main").tableNames().allSatisfy { table in
                try connection.fetchOne("SELECT 1 FROM main.\(SQLIdentifier.quoted(table)) LIMIT 1") == nil
            }
            guard isEmpty, try StateStore(connection: connection).exists(Unreleased.table) else { return isEmpty }
            try removeObjects(connection)
            return false
        }
    }

    /// Removes all objects that were made, and keeps the notes of claims.
    private static func removeObjects(_ connection: Connection) throws {
        let objects = try connection.fetchAll(
            "SELECT type, name FROM main.sqlite_master WHERE type IN ('view', 'table') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "AND name <> ? ORDER BY type DESC",
            [Unreleased.table]
        )
        for object in objects {
            let (type, name): (String, String) = (try object.get(0), try object.get(1))
            try connection.execute("DROP \(type) main.\(SQLIdentifier.quoted(name))")
        }
        try connection.execute("COMMIT")
    }

    private static func copySchema(_ source: Connection, _ target: Connection) throws {
        try LegibleSchema.checkTexts(source, in: "main")
        let objects = try source.fetchAll(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, rowid"
        )
        for object in objects {
            let (name, table, sql): (String, String, String) = (try object.get(1), try object.get(2), try object.get(3))
            if name == WholeFileNote.table { throw WholeFileNote.unfinished(source.fileName(schema: "main")) }
            if name == "midstream_state" {
                throw MigrationError(
                    .unsupported,
                    "tables of the source are still moving themselves: wait until they have moved"
                )
            }
            // These are claims and fences of moves out of the source, which stay behind.
            let type = SchemaObject.Kind(rawValue: try object.get(0)) ?? .table
            if OwnNames.has(type, name, on: table), name != OwnNames.upgrades {
                guard type != .table || !OwnNames.isReport(name) else {
                    throw MigrationError(
                        .unsupported,
                        "table \(name) of the source has rows that an earlier migration has set aside, and would "
                            + "stay behind: take from it what is needed, and drop or rename it",
                        table: name
                    )
                }
                continue
            }
            // Virtual tables come with their content: see `VirtualTables`.
            if SQLScript(sql).outline().kind == .createVirtualTable { continue }
            try target.execute(sql)
        }
        for pragma in ["user_version", "application_id"] {
            let value: Int64 = try source.fetchValue("PRAGMA main.\(pragma)") ?? 0
            try target.execute("PRAGMA main.\(pragma) = \(value)")
        }
        // No step moves the rows of this table later.
        if try source.fetchOne("SELECT 1 FROM sqlite_master WHERE name = ?", [OwnNames.upgrades]) != nil {
            try copyRows(of: OwnNames.upgrades, source, target)
        }
        try copyStatistics(source, target)
    }

    private static func copyStatistics(_ source: Connection, _ target: Connection) throws {
        let tables = try source.fetchAll(
            "SELECT name FROM sqlite_master WHERE name IN ('sqlite_stat1', 'sqlite_stat4')"
        )
        guard !tables.isEmpty else { return }
        try target.execute("ANALYZE main.sqlite_master")
        for table in tables {
            let name: String = try table.get(0)
            guard try target.fetchOne("SELECT 1 FROM sqlite_master WHERE name = ?", [name]) != nil else { continue }
            try copyRows(of: name, source, target)
        }
    }

    private static func copyRows(of name: String, _ source: Connection, _ target: Connection) throws {
        for row in try source.fetchAll("SELECT * FROM \(name)") {
            var arguments = Arguments()
            arguments.positional = row.values
            let marks = row.values.map { _ in "?" }.joined(separator: ", ")
            try target.execute("INSERT INTO \(name) VALUES (\(marks))", arguments)
        }
    }
}
