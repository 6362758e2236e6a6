internal import Midstream
internal import SQLiteConnection
internal import SQLText
internal import Synchronization

/// A migration that is to begin or to go on.
struct MoveRequest {
    var source: String
    var target: String
    /// The tables that are to move, each of them once.
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

    /// Reads the source, and finds out which of its tables are to move.
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

    /// A request to move tables that keep their names.
    init(tables: [String], source: String, target: String) throws {
        self.source = source
        self.target = target
        self.tables = tables.map { TableChoice(target: $0, source: $0) }
        keepsSource = false
        keys = FileKeys()
        schema = try SourceSchema(path: source, key: nil)
        isSameFile = Files.areSame(source, target)
    }

    /// What was found out when the tables had begun to move.
    struct Begun {
        /// The named tables that had already moved before.
        var movedBefore: [TableChoice] = []
        /// The objects of the source that are about its tables, and that stay there.
        var left: [LeftObject] = []
        /// Sentences about what has become of tables that had already moved before.
        var notes: [String] = []
    }

    /// Creates the tables that the target lacks, and begins the migration. Does nothing for a migration that has
    /// already begun or ended.
    @discardableResult
    func begin(in database: Database) throws -> Begun {
        if tables.isEmpty { return Begun() }
        let created = try database.write { try createMissingTables($0) }
        let notes = Mutex<[String]>([])
        database.onMigrated { event in
            switch event {
            case .sourceDropped(let table, let path):
                notes.withLock {
                    $0.append(
                        "Source table \(table) of \(path ?? "this file"), which had stayed before, has been dropped."
                    )
                }
            case .sourceKept(let table, let path, let reason):
                notes.withLock {
                    $0.append("Source table \(table) of \(path ?? "this file") stays: \(CommandWords.message(reason)).")
                }
            default: break
            }
        }
        let moving: Set<String>
        // The tables that were created in vain, since no row comes into them: their rows have moved before.
        let vain: [String]
        do {
            let begun = Set(try addMigration(to: database, created: created).map(SQLIdentifier.lowercased))
            let dropped = created.filter { !begun.contains(SQLIdentifier.lowercased($0)) }
            try database.write { try dropTables(dropped, $0) }
            (moving, vain) = (begun, dropped)
            for choice in tables where vain.contains(choice.target) {
                notes.withLock {
                    $0.append(
                        "The rows of \(choice.source) moved into table \(choice.target) before, which has been dropped or renamed "
                            + "since: they do not move again."
                    )
                }
            }
        } catch {
            // A table must stay if something of the migration has been stored for it.
            let begun = Set(try database.readMigrationProgress().tables.map { SQLIdentifier.lowercased($0.name) })
            let left = created.filter { !begun.contains(SQLIdentifier.lowercased($0)) }
            try? database.write { try dropTables(left, $0) }
            throw error
        }
        return Begun(
            movedBefore: tables.filter {
                !moving.contains(SQLIdentifier.lowercased($0.target)) && !vain.contains($0.target)
            },
            left: try left(in: database),
            notes: notes.withLock(\.self)
        )
    }

    /// Finds out whether the migration could begin, by trying it in copies that are removed. Changes nothing.
    ///
    /// - Parameter folder: A folder for the copies.
    func rehearse(in folder: String) throws -> Rehearsal {
        var here = self
        here.tables = []
        var states: [TableChoice: Rehearsal.State] = [:]
        func rehearsal(_ left: [LeftObject]) -> Rehearsal {
            // An object that is given up is dropped with its table.
            Rehearsal(
                source: source,
                tables: tables.map { ($0, states[$0] ?? .canMove) },
                left: left.filter { $0.kind != "trigger" || !givenUp.contains($0.name) }
            )
        }
        if Files.exists(target) {
            let database = try TargetDatabase.openStored(target, keys)
            defer { database.close() }
            let rows = try database.fetchAll("SELECT name FROM main.sqlite_master")
            let names = Set(try rows.map { SQLIdentifier.lowercased(try $0.get(0)) })
            here.tables = tables.filter { names.contains(SQLIdentifier.lowercased($0.target)) }
            try database.read { try here.checkTables($0) }
            if let found = try here.rehearse(database, created: []) {
                for choice in here.tables { states[choice] = Rehearsal.State(of: choice.target, in: found) }
            }
            if here.tables.count == tables.count { return rehearsal(try left(in: database)) }
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
        // In the copy, the target's own file is another file.
        there.isSameFile = false
        there.keys.source = isSameFile ? keys.target : keys.source
        try there.rehearse(database, created: created)
        return rehearsal(try left(in: database))
    }

    @discardableResult
    private func rehearse(_ database: Database, created: [String]) throws -> MigrationRehearsal? {
        if tables.isEmpty { return nil }
        return try database.rehearseMigration(
            source: isSameFile ? .sameDatabase : .file(source, key: keys.source),
            retirement: keepsSource ? .keep : .drop,
            filter: filter(created: created)
        )
    }

    /// - Returns: The tables that have rows to come.
    private func addMigration(to database: Database, created: [String]) throws -> [String] {
        // Tables that are created later are up to the script.
        let hasBegun = Flag()
        defer { hasBegun.raise() }
        return try database.addMigration(
            source: isSameFile ? .sameDatabase : .file(source, key: keys.source),
            retirement: keepsSource ? .keep : .drop,
            givingUp: givenUp
        ) { [filter = filter(created: created)] table in
            if !hasBegun.isRaised { filter(&table) }
        }
    }

    /// A filter that chooses the tables that are to move.
    ///
    /// - Parameter created: The tables that were created as they are in the source. What their triggers did for the
    ///   rows has been done in the source.
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

    /// - Returns: The names of the tables that were created.
    private func createMissingTables(_ access: DatabaseAccess) throws -> [String] {
        let objects = try access.fetchAll("SELECT name, type, sql FROM main.sqlite_master")
        var taken = Set(try objects.map { SQLIdentifier.lowercased(try $0.get(0)) })
        var created: [String] = []
        for choice in tables {
            let name = SQLIdentifier.lowercased(choice.target)
            if try objects.contains(where: { SQLIdentifier.lowercased(try $0.get(0)) == name }) { continue }
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
        try checkTables(access)
        // The triggers come last, since their programs may name other tables that have just been created.
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

    /// Makes sure that rows can move into the objects of the target that have the tables' names.
    private func checkTables(_ access: DatabaseAccess) throws {
        let objects = try access.fetchAll("SELECT name, type, sql FROM main.sqlite_master")
        let movable = Set(try access.movableTableNames().map(SQLIdentifier.lowercased))
        for choice in tables where !movable.contains(SQLIdentifier.lowercased(choice.target)) {
            guard let object = try objects.first(where: { choice.isTarget(try $0.get(0)) }) else { continue }
            let type: String = try object.get(1)
            guard type == "table" else {
                throw CommandFailure(
                    "\(choice.target) is the name of \(type == "index" ? "an" : "a") \(type) of the target, not of a table"
                )
            }
            // SQLite itself writes these two words, so they are always spelt like this.
            let isVirtual = try object.get(2, as: String?.self)?.hasPrefix("CREATE VIRTUAL") ?? false
            throw CommandFailure(
                isVirtual
                    ? "\(choice.target) is a virtual table of the target, and rows move into virtual tables only with "
                        + "--all-tables: leave it out, and fill it by midstream sql"
                    : "\(choice.target) is a table that SQLite, Midstream or a virtual table of the target keeps for itself: leave it out"
            )
        }
    }

    /// Creates a trigger, if everything that its program names is in the target.
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
            // SQLite looks up the names when the trigger would fire.
            for statement in statements { _ = try access.fetchAll("EXPLAIN " + statement) }
        } catch let error as SQLiteError where error.code == .error {
            // Functions and collations are the application's, and are not known here.
            isComplete = ["no such function", "no such collation"].contains(where: error.message.hasPrefix)
        }
        if !isComplete { try access.execute("ROLLBACK TO midstream_trigger") }
        try access.execute("RELEASE midstream_trigger")
        return isComplete
    }

    /// The objects of the source that are about its tables and have no counterpart in the target.
    private func left(in database: Database) throws -> [LeftObject] {
        let rows = try database.fetchAll(
            "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE type IN ('table', 'view', 'trigger')"
        )
        let names = Set(try rows.map { SQLIdentifier.lowercased(try $0.get(0)) })
        /// Whether the target's table has the trigger that was made of a source's trigger within the same file.
        func hasCome(_ object: SourceSchema.Object, on choice: TableChoice) throws -> Bool {
            try object.kind == "trigger"
                && rows.contains { row in
                    let name: String = try row.get(0)
                    let isNamed = name == object.name || name.hasPrefix("\(choice.target)_\(object.name)")
                    return try isNamed && choice.isTarget(row.get(1))
                }
        }
        var left: [LeftObject] = []
        for choice in tables {
            for object in schema.objects(about: choice.source)
            where try isSameFile
                ? SQLIdentifier.equal(object.owner, choice.source) && !hasCome(object, on: choice)
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
