import Midstream
import SQLiteConnection

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A case's databases: the target and its source on one side, and one native database that has all rows on the other.
final class CaseFiles {
    let oracleCase: OracleCase
    private let folder: TemporaryFolder
    private(set) var native: NativeSide
    private(set) var database: Database
    /// Whether the second migration of a chain has been added.
    private(set) var hasMovedOn = false
    private var openOthers: (database: Database, native: NativeSide)?

    private var targetName = "target.db"
    /// Whether all tables have moved on to a third file. Then no table is one that any program may write.
    var hasMovedFile: Bool { targetName != "target.db" }
    var targetPath: String { folder.file(targetName) }
    private var sourcePath: String { folder.file("source.db") }
    private var nativePath: String { folder.file("native.db") }

    /// Makes the files, and begins the migration.
    init(_ oracleCase: OracleCase) throws {
        self.oracleCase = oracleCase
        folder = TemporaryFolder()
        let native = try Self.openNative(folder.file("native.db"))
        self.native = NativeSide(connection: native)
        let target = try Connection(path: folder.file("target.db"), options: OpenOptions(key: oracleCase.keyOfTarget))
        let source =
            oracleCase.isSameFile
            ? target : try Connection(path: folder.file("source.db"), options: OpenOptions(key: oracleCase.keyOfSource))
        try target.execute("PRAGMA synchronous = OFF")
        try source.execute("PRAGMA synchronous = OFF")
        try target.execute("BEGIN")
        if !oracleCase.isSameFile { try source.execute("BEGIN") }
        try native.execute("BEGIN")
        for table in oracleCase.tables { try Self.fill(table, native: native, target: target, source: source) }
        for sql in oracleCase.views.map(\.sql) + oracleCase.triggers.map(\.sql) {
            try native.execute(sql)
            try target.execute(sql)
        }
        try native.execute("COMMIT")
        if !oracleCase.isSameFile { try source.execute("COMMIT") }
        try target.execute("COMMIT")
        target.close()
        source.close()
        database = try oracleCase.openTarget(folder.file("target.db"))
        try addMigration()
        try alignSequences(of: oracleCase.tables)
        // Both sides then begin with nothing changed and nothing inserted.
        try reopen()
    }

    private static func openNative(_ path: String) throws -> Connection {
        let connection = try Connection(path: path)
        try connection.execute("PRAGMA journal_mode = MEMORY")
        try connection.execute("PRAGMA synchronous = OFF")
        return connection
    }

    /// Puts each row that the table takes into the native database, and into the target or the source.
    private static func fill(_ table: TablePlan, native: Connection, target: Connection, source: Connection) throws {
        for sql in table.targetSchema {
            try native.execute(sql)
            try target.execute(sql)
        }
        for sql in table.sourceSchema { try source.execute(sql) }
        let columns = table.insertedColumns.joined(separator: ", ")
        let marks = table.insertedColumns.map { _ in "?" }.joined(separator: ", ")
        let name = quoted(table.name)
        for row in table.rows {
            var arguments = Arguments()
            arguments.positional = table.insertedValues(row)
            let isMapped = table.isMapped && !row.isInTarget && table.sourceName != nil
            var isMoved = false
            if isMapped {
                try source.execute("SAVEPOINT mapped")
                guard let values = try mapped(row, of: table, in: source) else {
                    try source.execute(script: "ROLLBACK TO mapped; RELEASE mapped")
                    continue
                }
                arguments.positional = values
            }
            defer {
                if isMapped {
                    try? source.execute(script: isMoved ? "RELEASE mapped" : "ROLLBACK TO mapped; RELEASE mapped")
                }
            }
            try native.execute("SAVEPOINT row")
            defer { try? native.execute("RELEASE row") }
            do {
                try native.execute("INSERT OR IGNORE INTO \(name)(\(columns)) VALUES (\(marks))", arguments)
            } catch {
                continue
            }
            var key = Arguments()
            key.positional =
                table.primaryKey.isEmpty
                ? [.integer(row.rowID)]
                : table.primaryKey.map { name in
                    zip(table.columns, row.values).first { $0.0.name == name }?.1 ?? .null
                }
            let isTheRow = table.key.map { "\($0) = ?" }.joined(separator: " AND ")
            guard native.changes == 1,
                let stored = try native.fetchOne("SELECT \(columns) FROM \(name) WHERE \(isTheRow)", key)
            else {
                // The row is not found again if SQLite has stored a number of its key as another number.
                try native.execute("ROLLBACK TO row")
                continue
            }
            isMoved = true
            if isMapped { continue }
            arguments.positional = stored.values
            if let sourceName = table.source(of: row), !row.isInTarget {
                try source.execute("INSERT INTO \(quoted(sourceName))(\(columns)) VALUES (\(marks))", arguments)
            } else {
                try target.execute("INSERT INTO \(name)(\(columns)) VALUES (\(marks))", arguments)
            }
        }
        guard let condition = table.condition else { return }
        // Rows that do not belong stay only in the source.
        let left = try table.sourceNames.flatMap {
            try source.fetchAll(
                "SELECT \(table.key.joined(separator: ", ")) FROM \(quoted($0)) WHERE NOT ifnull(\(condition), 0)"
            )
        }
        for row in left {
            var key = Arguments()
            key.positional = row.values
            let isTheRow = table.key.map { "\($0) = ?" }.joined(separator: " AND ")
            try native.execute("DELETE FROM \(name) WHERE \(isTheRow)", key)
        }
    }

    /// Puts a row into a source of another shape.
    ///
    /// - Returns: What the source has for the target; `nil` if the source does not take the row.
    private static func mapped(_ row: RowPlan, of table: TablePlan, in source: Connection) throws -> [SQLiteValue]? {
        let columns = table.sourceInsertedColumns
        let values = table.insertedValues(row)
        var arguments = Arguments()
        arguments.positional = columns.map { values[$0.position] }
        let name = quoted(table.source(of: row) ?? "")
        let before = source.totalChanges
        do {
            try source.execute(
                "INSERT OR IGNORE INTO \(name)(\(columns.map(\.name).joined(separator: ", "))) "
                    + "VALUES (\(columns.map { _ in "?" }.joined(separator: ", ")))",
                arguments
            )
        } catch {
            return nil
        }
        guard source.totalChanges > before else { return nil }
        var key = Arguments()
        key.positional = table.key.map { name in values[table.insertedColumns.firstIndex(of: name) ?? 0] }
        let isTheRow = table.key.map { "\($0) = ?" }.joined(separator: " AND ")
        let made = try source.fetchOne(
            "SELECT \(table.mappedColumns.joined(separator: ", ")) FROM \(name) WHERE \(isTheRow)",
            key
        )
        // Text that is no UTF-8, as an expression may make it of a blob, is not read as it is.
        let isWhole = made?.values.allSatisfy { value in
            if case .text(let text) = value { !text.contains("\u{fffd}") } else { true }
        }
        return isWhole == true ? made?.values : nil
    }

    private func addMigration() throws {
        let tables = oracleCase.tables
        let source: MigrationSource =
            oracleCase.isSameFile ? .sameDatabase : .file(sourcePath, key: oracleCase.keyOfSource)
        try addMigration(source) { $0.sourceName }
        if tables.contains(where: { $0.secondSourceName != nil }) { try addMigration(source) { $0.secondSourceName } }
    }

    /// Makes a table move on to another one; natively, its rows move at once. Does nothing if views or triggers may
    /// name the table, or if the other table does not take the rows.
    func moveOn() throws {
        guard let chain = oracleCase.chain, let table = oracleCase.tables.first(where: { $0.name == chain.to }) else {
            return
        }
        // The name of an index is taken for as long as the source's table stays.
        let dependents = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger') OR name LIKE 'late%'"
        let columns = try native.connection.fetchAll("PRAGMA table_info(\(quoted(chain.from)))").map {
            try $0.get("name", as: String.self)
        }
        // If there were no column of that name, SQLite would take the name for a string.
        let isAsItWas = Set(columns).isSuperset(of: table.columns.filter { !$0.isGenerated }.map(\.name))
        guard isAsItWas, try native.connection.fetchOne(dependents) == nil else { return }
        let from = quoted(chain.from)
        do {
            try native.connection.transaction {
                try native.connection.execute(
                    "INSERT OR ABORT INTO \(quoted(chain.to))(\(table.insertedColumns.joined(separator: ", "))) "
                        + "SELECT \(table.mappedColumns.joined(separator: ", ")) FROM \(from)"
                )
                try native.connection.execute("DROP TABLE \(from)")
            }
        } catch is SQLiteError {
            // The attempt that failed has changed what was inserted last.
            return try reopen()
        }
        try addMigration(.sameDatabase) { $0.name == chain.to ? chain.from : nil }
        hasMovedOn = true
        try alignSequences(of: [table])
        try reopen()
    }

    /// Makes all tables move on to a third file. If one that has rows to come cannot, nothing changes.
    func moveFile() throws {
        // The findings of ANALYZE would have to come along. SQLite attaches no file that has a view of `main.T`.
        let hindrance =
            "SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1' OR type IN ('view', 'trigger') AND sql LIKE '%main%'"
        guard !hasMovedFile, try native.connection.fetchOne(hindrance) == nil else { return }
        let (formerName, formerPath) = (targetName, targetPath)
        closeOthers()
        database.close()
        let former = try Connection(path: formerPath, options: OpenOptions(key: oracleCase.keyOfTarget))
        let schema = try former.fetchAll(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'midstream%' AND name NOT LIKE 'sqlite%' "
                + "ORDER BY type = 'trigger', type = 'view', type = 'index', rowid"
        )
        let version = try former.fetchValue(Int64.self, "PRAGMA user_version") ?? 0
        former.close()
        targetName = "third.db"
        let third = try Connection(path: targetPath, options: OpenOptions(key: oracleCase.keyOfTarget))
        for row in schema { try third.execute(row.get(0, as: String.self)) }
        try third.execute("PRAGMA user_version = \(version)")
        third.close()
        database = try oracleCase.openTarget(targetPath)
        do {
            try database.addMigration(source: .file(formerPath, key: oracleCase.keyOfTarget)) {
                $0.sourceTable = $0.name
                $0.firesTriggers = false
                $0.waivedForeignKeys = ["nowhere"]
            }
            hasMovedOn = true
        } catch let error as MigrationError where [.unsupported, .unequalTables].contains(error.code) {
            guard try database.readMigrationProgress().tables.isEmpty else { throw error }
            database.close()
            targetName = formerName
            database = try openTarget()
        }
        try alignSequences(of: oracleCase.tables)
        try reopen()
    }

    private func addMigration(_ source: MigrationSource, from name: @escaping @Sendable (TablePlan) -> String?) throws {
        let oracleCase = oracleCase
        let tables = oracleCase.tables
        try database.addMigration(source: source) { migration in
            guard let table = tables.first(where: { $0.name == migration.name }) else { return }
            guard let source = name(table) else { return }
            migration.sourceTable = source
            migration.firesTriggers = false
            migration.waivedForeignKeys = ["nowhere"]
            migration.condition = table.condition
            for column in table.columns {
                switch column.origin {
                case nil: break
                case .column(let name, _): migration.columns[column.name] = .column(name)
                case .expression(let text): migration.columns[column.name] = .expression(text)
                case .value(let value): migration.columns[column.name] = .value(value)
                case .absent: migration.unmatchedColumns = .ignored
                }
            }
            if table.leavesColumn || source == oracleCase.chain?.from { migration.unmatchedColumns = .ignored }
        }
    }

    /// Sets AUTOINCREMENT to the larger value of the two sides, with regard also to rows that do not belong.
    private func alignSequences(of tables: [TablePlan]) throws {
        for table in tables where table.isAutoIncrement {
            let sequence = try database.fetchValue(
                Int64.self,
                "SELECT seq FROM sqlite_sequence WHERE name = ?",
                [table.name]
            )
            let own: Int64? = try native.connection.fetchValue(
                "SELECT seq FROM sqlite_sequence WHERE name = ?",
                [table.name]
            )
            guard let sequence else {
                // This value is of a row that was not taken after all.
                try native.connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", [table.name])
                continue
            }
            if own == nil {
                try native.connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", [table.name, sequence])
            } else {
                try native.connection.execute(
                    "UPDATE sqlite_sequence SET seq = ? WHERE name = ?",
                    [sequence, table.name]
                )
            }
        }
    }

    func reopen() throws {
        native.connection.close()
        database.close()
        closeOthers()
        native = NativeSide(connection: try openNative())
        database = try openTarget()
    }

    private func openNative() throws -> Connection {
        let connection = try Self.openNative(nativePath)
        if oracleCase.enforcesForeignKeys { try connection.execute("PRAGMA foreign_keys = ON") }
        for sql in oracleCase.settings { try connection.execute(sql) }
        return connection
    }

    private func openTarget() throws -> Database {
        let database = try oracleCase.openTarget(targetPath)
        for sql in oracleCase.settings { try database.execute(sql) }
        return database
    }

    // MARK: Other connections

    /// Opens a second connection to each side.
    func others() throws -> (database: Database, native: NativeSide) {
        if let known = openOthers { return known }
        let made = (try openTarget(), NativeSide(connection: try openNative()))
        openOthers = made
        return made
    }

    /// Opens a connection to the target that knows nothing of the migration, and one to the native database.
    func strangers() throws -> (target: NativeSide, native: NativeSide) {
        let target = try Connection(path: targetPath, options: OpenOptions(key: oracleCase.keyOfTarget))
        return (NativeSide(connection: target), NativeSide(connection: try Self.openNative(nativePath)))
    }

    private func closeOthers() {
        openOthers?.database.close()
        openOthers?.native.connection.close()
        openOthers = nil
    }

    /// Compares the files after everything has moved.
    ///
    /// - Returns: What differs; `nil` if nothing does.
    func compareAtEnd() throws -> String? {
        var steps = 0
        while try !database.stepMigration(rows: 64).isFinished {
            steps += 1
            if steps > 2000 { return "the migration does not end: \(try database.readMigrationProgress())" }
        }
        guard database.isMigrated else { return "isMigrated is false" }
        closeOthers()
        database.close()
        let target = try Connection(path: targetPath, options: OpenOptions(key: oracleCase.keyOfTarget))
        defer { target.close() }
        let side = NativeSide(connection: target)
        let kept = oracleCase.tables.filter { oracleCase.isSameFile && $0.condition != nil }.flatMap(\.sourceNames)
        let hidden = kept.map { literal(.text($0)) }.joined(separator: ", ")
        // VACUUM drops `sqlite_sequence` if no table needs it; a source in the same file may need it.
        var queries = [
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE tbl_name NOT IN (\(hidden)) "
                + "AND name <> 'sqlite_sequence' ORDER BY type, name, tbl_name",
            "PRAGMA integrity_check", "PRAGMA foreign_key_check",
        ]
        queries += try native.connection.fetchAll(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).map { row in
            let name: String = try row.get(0)
            let key = (oracleCase.tables.first { $0.name == name }?.key ?? ["rowid"]).joined(separator: ", ")
            return "SELECT \(key), * FROM \(quoted(name)) ORDER BY \(key)"
        }
        if oracleCase.tables.contains(where: \.isAutoIncrement) {
            queries.append("SELECT name, seq FROM sqlite_sequence WHERE name NOT IN (\(hidden)) ORDER BY name")
        }
        for query in queries {
            // SQLite chooses which table it checks first.
            let order: Command.Order = query.hasPrefix("PRAGMA") ? .none : .total
            let command = Command(sql: query, order: order)
            if let text = side.run(command).rowDifference(from: native.run(command), order: order) {
                return "at the end, \(query):\n  \(text)"
            }
        }
        return nil
    }

    deinit {
        closeOthers()
        database.close()
        native.connection.close()
    }
}

extension OracleCase {
    fileprivate var keyOfTarget: EncryptionKey? { TestKeys.all[targetKey] }
    fileprivate var keyOfSource: EncryptionKey? { TestKeys.all[sourceKey] }

    fileprivate func openTarget(_ path: String) throws -> Database {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = enforcesForeignKeys
        configuration.sourceKey = { [keyOfSource, keyOfTarget] path in
            path.hasSuffix("/source.db") ? keyOfSource : keyOfTarget
        }
        let database = try Database(path: path, key: keyOfTarget, configuration: configuration)
        if isBuilt { try database.buildsAllTables() }
        return database
    }
}
