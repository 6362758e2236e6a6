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
    private var firesTriggers = false
    var keepsSource: Bool
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
        columns = arguments.columns
        ignoresUnmatchedColumns = arguments.ignoresUnmatchedColumns
        firesTriggers = arguments.firesTriggers
        self.keys = keys
        isSameFile = Files.areSame(source, target)
        schema = try SourceSchema(path: source, key: isSameFile ? keys.target : keys.source)
        tables = arguments.tables
        if arguments.movesAllTables {
            guard !isSameFile else {
                throw CommandFailure(
                    "source and target are one file, where no table can keep its name: give --table TARGET=SOURCE"
                )
            }
            let named = Set(tables.map { SQLIdentifier.lowercased($0.source) })
            tables += schema.tables.map(\.name).filter { !named.contains(SQLIdentifier.lowercased($0)) }
                .map { TableChoice(target: $0, source: $0) }
        }
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
    func begin(in database: Database) throws {
        if tables.isEmpty { return }
        let created = try database.write { try createMissingTables($0) }
        do {
            try addMigration(to: database)
        } catch {
            // What has been stored of the migration needs its table.
            let begun = Set(try database.readMigrationProgress().tables.map { SQLIdentifier.lowercased($0.name) })
            let vain = created.filter { !begun.contains(SQLIdentifier.lowercased($0)) }
            try? database.write { try dropTables(vain, $0) }
            throw error
        }
    }

    private func addMigration(to database: Database) throws {
        let sources = Dictionary(uniqueKeysWithValues: tables.map { (SQLIdentifier.lowercased($0.target), $0.source) })
        // Tables that are created later are the script's own affair.
        let hasBegun = Flag()
        defer { hasBegun.raise() }
        try database.addMigration(
            source: isSameFile ? .sameDatabase : .file(source, key: keys.source),
            retirement: keepsSource ? .keep : .drop
        ) { [condition, columns, ignoresUnmatchedColumns, firesTriggers] table in
            guard !hasBegun.isRaised, let name = sources[SQLIdentifier.lowercased(table.name)] else { return }
            table.sourceTable = name
            table.condition = condition
            for choice in columns where SQLIdentifier.equal(choice.table, table.name) {
                table.columns[choice.column] = .expression(choice.expression)
            }
            table.firesTriggers = firesTriggers
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
        return created
    }

    /// Drops tables that were created in vain, unless somebody has filled them meanwhile.
    private func dropTables(_ names: [String], _ access: DatabaseAccess) throws {
        for name in names.map(SQLIdentifier.quoted) {
            guard try access.fetchOne("SELECT 1 FROM main.\(name) LIMIT 1") == nil else { continue }
            try access.execute("DROP TABLE main.\(name)")
        }
    }
}
