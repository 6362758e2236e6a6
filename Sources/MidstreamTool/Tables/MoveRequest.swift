internal import Midstream
internal import SQLiteConnection
internal import SQLText

/// A migration that is to begin, or to go on.
struct MoveRequest {
    var source: String
    var target: String
    /// Each once.
    var tables: [TableChoice]
    var condition: String?
    private var columns: [ColumnChoice] = []
    private var ignoresUnmatchedColumns = false
    private var firesTriggers: Bool?
    private var waivedForeignKeys: [String] = []
    var keepsSource: Bool
    private var givenUp: Set<String> = []
    private var schema: SourceSchema
    private var isSameFile: Bool
    private var keys: FileKeys

    /// Reads the source, and finds out which of its tables are meant.
    ///
    /// - Throws: ``CommandFailure`` before anything has been done.
    init(_ arguments: MoveArguments, source: String, target: String, keys: FileKeys) throws {
        self.source = source
        self.target = target
        condition = arguments.condition
        keepsSource = arguments.keepsSource
        givenUp = arguments.givenUp
        columns = arguments.columns
        ignoresUnmatchedColumns = arguments.ignoresUnmatchedColumns
        firesTriggers = arguments.firesTriggers
        waivedForeignKeys = arguments.waivedForeignKeys
        self.keys = keys
        isSameFile = Files.areSame(source, target)
        schema = try SourceSchema(path: source, key: isSameFile ? keys.target : keys.source)
        tables = arguments.tables
        var seen: Set<String> = []
        for table in tables where !seen.insert(SQLIdentifier.lowercased(table.target)).inserted {
            throw CommandFailure("table \(table.target) is named twice: it can have the rows of one table only")
        }
        if let choice = columns.first(where: { !seen.contains(SQLIdentifier.lowercased($0.table)) }) {
            throw CommandFailure("--map names table \(choice.table), which is not one of those that move")
        }
    }

    /// Tables that keep their names.
    init(tables: [String], source: String, target: String) throws {
        self.source = source
        self.target = target
        self.tables = tables.map { TableChoice(target: $0, source: $0) }
        keepsSource = false
        keys = FileKeys()
        schema = try SourceSchema(path: source, key: nil)
        isSameFile = Files.areSame(source, target)
    }

    /// Creates the tables that the target lacks, and begins the migration. Does nothing for what has begun or ended.
    ///
    /// - Returns: What of the source is about its tables, and stays there.
    @discardableResult
    func begin(in database: Database) throws -> [LeftObject] {
        if tables.isEmpty { return [] }
        let created = try database.write { try createMissingTables($0) }
        do {
            try addMigration(to: database, created: created)
        } catch {
            // What has been stored of the migration needs its table.
            let begun = Set(try database.readMigrationProgress().tables.map { SQLIdentifier.lowercased($0.name) })
            let vain = created.filter { !begun.contains(SQLIdentifier.lowercased($0)) }
            try? database.write { try dropTables(vain, $0) }
            throw error
        }
        return try left(in: database)
    }

    /// Looks whether it could begin, in copies that are removed, and changes nothing.
    ///
    /// - Parameter folder: A folder for the copies.
    /// - Returns: What of the source is about its tables, and would stay there.
    func rehearse(in folder: String) throws -> [LeftObject] {
        var here = self
        here.tables = []
        if Files.exists(target) {
            let database = try TargetDatabase.openStored(target, keys)
            defer { database.close() }
            let rows = try database.fetchAll("SELECT name FROM main.sqlite_master")
            let names = Set(try rows.map { SQLIdentifier.lowercased(try $0.get(0)) })
            here.tables = tables.filter { names.contains(SQLIdentifier.lowercased($0.target)) }
            try here.rehearse(database, created: [])
            if here.tables.count == tables.count { return try left(in: database) }
        }
        var there = self
        there.tables.removeAll(where: here.tables.contains)
        let scratch = folder + "/scratch"
        if Files.exists(target) {
            try Database.copySchema(ofFile: target, key: keys.target, to: scratch, key: keys.target)
        }
        let database = try Database(path: scratch, key: keys.target)
        defer { database.close() }
        let created = try database.write { try there.createMissingTables($0) }
        // There, its own file is another one.
        there.isSameFile = false
        there.keys.source = isSameFile ? keys.target : keys.source
        try there.rehearse(database, created: created)
        return try left(in: database)
    }

    private func rehearse(_ database: Database, created: [String]) throws {
        if tables.isEmpty { return }
        _ = try database.rehearseMigration(
            source: isSameFile ? .sameDatabase : .file(source, key: keys.source),
            filter: filter(created: created)
        )
    }

    private func addMigration(to database: Database, created: [String]) throws {
        // Tables that are created later are the script's own affair.
        let hasBegun = Flag()
        defer { hasBegun.raise() }
        try database.addMigration(
            source: isSameFile ? .sameDatabase : .file(source, key: keys.source),
            retirement: keepsSource ? .keep : .drop,
            givingUp: givenUp
        ) { [filter = filter(created: created)] table in
            if !hasBegun.isRaised { filter(&table) }
        }
    }

    /// Chooses the tables that are to move.
    ///
    /// - Parameter created: The tables that were created as they are in the source: what their triggers did for the rows, they have
    ///   done there.
    private func filter(created: [String]) -> @Sendable (inout TableMigration) -> Void {
        let sources = Dictionary(uniqueKeysWithValues: tables.map { (SQLIdentifier.lowercased($0.target), $0.source) })
        return { [condition, columns, ignoresUnmatchedColumns, firesTriggers, waivedForeignKeys] table in
            guard let name = sources[SQLIdentifier.lowercased(table.name)] else { return }
            table.sourceTable = name
            table.condition = condition
            for choice in columns where SQLIdentifier.equal(choice.table, table.name) {
                table.columns[choice.column] = .expression(choice.expression)
            }
            let isCreated = created.contains { SQLIdentifier.equal($0, table.name) }
            table.firesTriggers = firesTriggers ?? (isCreated ? false : nil)
            table.waivedForeignKeys = Set(waivedForeignKeys)
            if ignoresUnmatchedColumns { table.unmatchedColumns = .ignored }
        }
    }

    /// - Returns: The names of those that it created.
    private func createMissingTables(_ access: DatabaseAccess) throws -> [String] {
        let objects = try access.fetchAll("SELECT name, type, sql FROM main.sqlite_master")
        var taken = Set(try objects.map { SQLIdentifier.lowercased(try $0.get(0)) })
        var created: [String] = []
        for choice in tables {
            let name = SQLIdentifier.lowercased(choice.target)
            if let object = try objects.first(where: { SQLIdentifier.lowercased(try $0.get(0)) == name }) {
                guard object[1] == .text("table") else {
                    let type: String = try object.get(1)
                    throw CommandFailure(
                        "\(choice.target) is the name of \(type == "index" ? "an" : "a") \(type) of the target, not of a table"
                    )
                }
                continue
            }
            guard let table = schema.table(named: choice.source) else {
                throw CommandFailure("there is no table \(choice.source) in \(source) that can move")
            }
            taken.insert(name)
            let statements = try TableDefinition.statements(for: table, named: choice.target, takenNames: taken)
            for statement in statements {
                try access.execute(statement)
                if let index = SQLScript(statement).outline().target {
                    taken.insert(SQLIdentifier.lowercased(index.name))
                }
            }
            created.append(choice.target)
        }
        // Their programs may name other tables that have come.
        for choice in tables where created.contains(choice.target) {
            guard let table = schema.table(named: choice.source) else { continue }
            for trigger in table.triggers {
                let definition = try TableDefinition.trigger(
                    trigger,
                    of: table,
                    named: choice.target,
                    takenNames: taken
                )
                guard let definition, try create(definition.sql, on: choice.target, access) else { continue }
                taken.insert(SQLIdentifier.lowercased(definition.name))
            }
        }
        return created
    }

    /// Creates a trigger, if all that its program names is in the target.
    private func create(_ trigger: String, on table: String, _ access: DatabaseAccess) throws -> Bool {
        let name = "main." + SQLIdentifier.quoted(table)
        let columns = try access.fetchAll("PRAGMA main.table_info(\(SQLIdentifier.quoted(table)))").map {
            SQLIdentifier.quoted(try $0.get("name", as: String.self))
        }
        let statements = [
            "INSERT INTO \(name) DEFAULT VALUES", "DELETE FROM \(name)",
            "UPDATE \(name) SET " + columns.map { "\($0) = \($0)" }.joined(separator: ", "),
        ]
        try access.execute("SAVEPOINT midstream_trigger")
        var isComplete = true
        do {
            try access.execute(trigger)
            // SQLite looks the names up when the trigger would fire.
            for statement in statements { _ = try access.fetchAll("EXPLAIN " + statement) }
        } catch let error as SQLiteError where error.code == .error {
            // Functions and collations are the application's, which is not here.
            isComplete = ["no such function", "no such collation"].contains(where: error.message.hasPrefix)
        }
        if !isComplete { try access.execute("ROLLBACK TO midstream_trigger") }
        try access.execute("RELEASE midstream_trigger")
        return isComplete
    }

    /// What of the source is about its tables, and has no counterpart in the target.
    private func left(in database: Database) throws -> [LeftObject] {
        let rows = try database.fetchAll(
            "SELECT type, name FROM main.sqlite_master WHERE type IN ('table', 'view', 'trigger')"
        )
        let names = Set(try rows.map { SQLIdentifier.lowercased(try $0.get(1)) })
        var left: [LeftObject] = []
        for choice in tables {
            for object in schema.objects(about: choice.source)
            where isSameFile
                ? SQLIdentifier.equal(object.owner, choice.source)
                : !names.contains(SQLIdentifier.lowercased(object.name))
            {
                let isKnown = left.contains { $0.kind == object.kind && $0.name == object.name }
                if !isKnown { left.append(LeftObject(kind: object.kind, name: object.name)) }
            }
        }
        return left
    }

    /// Drops tables that were created in vain, unless somebody has filled them meanwhile.
    private func dropTables(_ names: [String], _ access: DatabaseAccess) throws {
        for name in names.map(SQLIdentifier.quoted) {
            guard try access.fetchOne("SELECT 1 FROM main.\(name) LIMIT 1") == nil else { continue }
            try access.execute("DROP TABLE main.\(name)")
        }
    }
}
