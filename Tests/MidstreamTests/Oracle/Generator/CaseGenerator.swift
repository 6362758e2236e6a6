import SQLiteConnection
import SQLiteFeatures

/// Makes a case from a run's seed and the case's number.
struct CaseGenerator {
    private let dice: Dice
    /// Decides whether tables move on to a third file. It is apart from all other dice, so that a case is otherwise the
    /// same with and without.
    private let diceOfFiles: Dice
    private let generator: StatementGenerator
    private var tables: [TablePlan]
    private var triggers: [TriggerPlan] = []
    private let dependents: Dependents

    init(seed: UInt64, number: Int) {
        dice = Dice(seed: seed, number: number)
        diceOfFiles = Dice(seed: ~seed, number: number)
        dependents = dice.weighted([(60, .none), (15, .triggers), (17, .foreignKeys), (8, .both)])
        // After the largest rowid, SQLite chooses rowids at random. If a trigger's row gets such a rowid, nothing
        // tells.
        let pool = ValuePool(dice, hasLargest: dependents == .none || dependents == .foreignKeys)
        tables = SchemaGenerator(dice: dice, pool: pool).tables()
        generator = StatementGenerator(dice: dice, pool: pool, tables: tables)
    }

    /// What a case has besides tables and views. Triggers drain tables, so most cases have no dependents.
    private enum Dependents {
        case none, triggers, foreignKeys, both
    }

    mutating func generate(statements: Int) -> OracleCase {
        let hasForeignKeys = dependents == .foreignKeys || dependents == .both
        let hasTriggers = dependents == .triggers || dependents == .both
        if hasForeignKeys { ForeignKeyGenerator(dice: dice).add(to: &tables) }
        var tables = tables
        let isSameFile = dice.percent(20)
        let chain = dependents == .none && dice.percent(20) ? self.chain(&tables) : nil
        if isSameFile {
            for index in tables.indices where tables[index].sourceName != nil {
                tables[index].sourceName = "old " + tables[index].name
            }
        }
        // A view of a table that moves on would have nothing to read.
        for number in 0..<(chain == nil ? dice.below(3) : 0) { addView(number) }
        if hasTriggers {
            triggers = (0..<dice.between(1, 3)).map { TriggerGenerator(generator).trigger($0) }
            tables.append(TriggerGenerator.log)
            generator.viewWrites = 12
            generator.mayRecurse = true
        }
        var operations: [Operation] = []
        // Some migrations hardly move while the case runs, others end early.
        let stepChance = dice.pick([2, 5, 10, 20])
        // Changes of the schema end most migrations, so they come late.
        let firstChange = dice.percent(40) ? statements * 8 / 10 : Int.max
        var moveOn = chain.map { _ in dice.below(statements * 6 / 10) }
        var moveFile =
            chain == nil && !isSameFile && diceOfFiles.percent(15) ? diceOfFiles.below(statements * 8 / 10) : nil
        while operations.count < statements {
            if let position = moveOn, operations.count >= position, let chain {
                moveOn = nil
                operations.append(.moveOn)
                replace(chain.plan.from, with: chain.table)
            }
            if let position = moveFile, operations.count >= position {
                moveFile = nil
                operations.append(.moveFile)
            }
            if dice.percent(stepChance) {
                operations.append(.step(dice.percent(90) ? Int64(dice.between(1, 9)) : nil))
            }
            operations += operations.count >= firstChange && dice.percent(35) ? [change()] : next()
        }
        var oracleCase = OracleCase(
            tables: tables,
            views: generator.views,
            triggers: triggers,
            isSameFile: isSameFile,
            operations: operations
        )
        oracleCase.chain = chain?.plan
        oracleCase.targetKey = dice.below(TestKeys.all.count)
        oracleCase.sourceKey = dice.below(TestKeys.all.count)
        oracleCase.enforcesForeignKeys = hasForeignKeys && dice.percent(85)
        if hasTriggers, dice.percent(40) { oracleCase.settings.append("PRAGMA recursive_triggers = ON") }
        oracleCase.isBuilt = dice.percent(50)
        return oracleCase
    }

    /// A moving table, and the table to which it moves on. That table is empty, and no statement names it until then.
    ///
    /// Its name begins like the names of all sources in the target's file. Questions about the schema leave these out,
    /// since such a table is there until its rows have moved.
    private mutating func chain(_ tables: inout [TablePlan]) -> (plan: ChainPlan, table: TablePlan)? {
        var table = dice.pick(tables.filter { $0.sourceName != nil })
        let name = table.name
        table.name = "old " + name
        tables = tables.map { $0.name == name ? table : $0 }
        replace(name, with: table)
        var next = SchemaGenerator(dice: dice, pool: generator.pool).table(after: table)
        tables.append(next)
        next.sourceName = table.name
        return (ChainPlan(from: table.name, to: next.name), next)
    }

    private mutating func replace(_ name: String, with table: TablePlan) {
        tables = tables.map { $0.name == name ? table : $0 }
        generator.replace(name, with: table)
    }

    private func addView(_ number: Int) {
        let (query, columns) = generator.derivedTable()
        // An index hint of the query would not show in the statements that read the view.
        let text = query.replacing(" NOT INDEXED", with: "")
        let view = "view \(number)"
        let command = generator.finish("CREATE VIEW \(quoted(view)) AS \(text)", literalsOnly: true)
        generator.views.append(ViewPlan(name: view, columns: columns, sql: command.sql))
    }

    private func next() -> [Operation] {
        switch dice.below(1000) {
        case ..<450: return [.run(generator.query())]
        case ..<830: return [.run(generator.write())]
        case ..<900: return [.run(Command(sql: transaction()))]
        case ..<940: return [.read(generator.query())]
        case ..<955: return [block()]
        case ..<980: return [loop()]
        case ..<983: return [.reopen]
        case ..<985 where !triggers.isEmpty: return [.run(changes.setting())]
        case ..<990: return [.run(sequence())]
        case ..<992: return [.run(changes.common(generator.table()))]
        case ..<994: return [.run(dice.percent(70) ? changes.question() : changes.setting())]
        case ..<995: return [dice.percent(60) ? .other(generator.write()) : .stranger(changes.strange())]
        case ..<996: return [.other(generator.query())]
        default: return [.run(mistake())]
        }
    }

    private func transaction() -> String {
        let savepoint = dice.pick(["s1", "s2", "\"S 3\""])
        return dice.weighted([
            (16, "BEGIN"), (8, "BEGIN IMMEDIATE"), (3, "BEGIN EXCLUSIVE"), (20, "COMMIT"), (4, "END TRANSACTION"),
            (12, "ROLLBACK"), (18, "SAVEPOINT \(savepoint)"), (12, "RELEASE \(savepoint)"),
            (12, "ROLLBACK TO \(savepoint)"),
        ])
    }

    /// A table with the definition of a moving table takes that table's rows as they are, and gives them back.
    private func transfer() -> Operation {
        let table = generator.table()
        let copy = "copy \(dice.below(1000))"
        var plan = table
        plan.foreignKeys = []
        let creations =
            [plan.creation(named: copy, columns: plan.columns)]
            + (dice.percent(80) ? plan.indexCreations(on: copy, prefix: copy) { _ in true } : [])
        let word = dice.pick(["INSERT", "INSERT", "INSERT OR IGNORE", "REPLACE"])
        let (from, to) = (quoted(table.name), quoted(copy))
        let key = plan.key.joined(separator: ", ")
        let contents = Command(sql: "SELECT \(key), * FROM \(to) ORDER BY \(key)", order: .total)
        var commands = creations.map { Command(sql: $0) }
        if dice.percent(25) {
            commands.append(Command(sql: "\(word) INTO \(to) SELECT * FROM \(from) ORDER BY \(key) LIMIT 1"))
        }
        commands += [Command(sql: "\(word) INTO main.\(to) SELECT * FROM \(from)"), contents]
        if dice.percent(50) {
            let isEmptied = dice.percent(50)
            if isEmptied { commands.append(Command(sql: "DELETE FROM \(from)")) }
            commands.append(Command(sql: "\(word) INTO \(from) SELECT * FROM \(to)"))
            commands.append(Command(sql: table.contents, order: .total))
        }
        return .block(commands + [Command(sql: "DROP TABLE \(to)")], commits: dice.percent(40))
    }

    private func block() -> Operation {
        if dice.percent(12) { return transfer() }
        let commands = (0..<dice.between(1, 6)).map { _ in
            switch dice.below(10) {
            case 0: Command(sql: dice.pick(["SAVEPOINT b", "RELEASE b", "ROLLBACK TO b"]))
            case 1, 2, 3: generator.query()
            default: generator.write()
            }
        }
        return .block(commands, commits: dice.percent(70))
    }

    /// SQLite defines what a scan shows of writes during the scan only if these concern rows that the scan has passed.
    /// After a rollback of a transaction that has changed the schema, as draining does, the scan ends with an error.
    ///
    /// While a scan reads a table, statements that drain the table are refused. So there are no triggers, foreign keys
    /// and hidden keys. In a table without rowids, a native scan gives rows twice if they are changed meanwhile.
    private func loop() -> Operation {
        if dependents != .none { return .run(generator.write()) }
        let movers = tables.filter {
            $0.sourceName != nil && !$0.mayReplace && !$0.mayRollBack && !$0.hasHiddenKeys && $0.primaryKey.isEmpty
        }
        if movers.isEmpty { return .run(generator.query()) }
        let table = dice.pick(movers)
        let key = table.rowIDName
        let isDescending = dice.percent(30)
        let bound = dice.percent(30) ? " WHERE \(key) \(dice.pick([">", "<"])) \(dice.pick([3, 10]))" : ""
        let select = Command(
            sql: "SELECT \(key) FROM \(quoted(table.name))\(bound) ORDER BY \(key)\(isDescending ? " DESC" : "")",
            order: .total
        )
        let plain = table.columns.filter { !$0.isGenerated }.map(\.name).filter { $0 != table.rowIDColumn }
        if plain.isEmpty { return .run(generator.query()) }
        let writes = (0..<dice.between(1, 3)).map { _ -> Command in
            let column = quoted(dice.pick(plain))
            let value = literal(dice.pick(generator.pool.values))
            let name = quoted(table.name)
            let behind = isDescending ? ">" : "<"
            let sql = dice.pick([
                "UPDATE \(name) SET \(column) = \(value) WHERE \(key) = ?1",
                "UPDATE \(name) SET \(column) = \(value) WHERE \(key) \(behind)= ?1",
                "UPDATE \(name) SET \(column) = \(column) || 'x' WHERE \(key) > ?1 + 2",
                "DELETE FROM \(name) WHERE \(key) = ?1",
                "DELETE FROM \(name) WHERE \(key) \(behind) ?1",
                "SELECT count(*), max(\(key)) FROM \(name) WHERE \(key) <> ?1",
            ])
            return Command(sql: sql)
        }
        return .loop(select, writes, limit: dice.pick([2, 5, 1000]))
    }

    private func sequence() -> Command {
        let name = literal(.text(generator.table().name))
        return Command(
            sql: dice.pick([
                "DELETE FROM sqlite_sequence WHERE name = \(name)",
                "UPDATE sqlite_sequence SET seq = \(dice.pick([0, 3, 60])) WHERE name = \(name)",
                "SELECT seq FROM sqlite_sequence WHERE name = \(name)",
            ])
        )
    }

    private var changes: SchemaChangeGenerator {
        SchemaChangeGenerator(generator: generator, triggers: triggers)
    }

    /// A change of the schema, on one of the connections, maybe in a transaction that is rolled back.
    private func change() -> Operation {
        switch dice.below(20) {
        case 0, 1: return .stranger(changes.strange())
        case 2, 3: return .other(changes.change())
        case 4: return .other(generator.write())
        case 5, 6, 7:
            var commands = [changes.change()]
            if dice.percent(40) { commands.insert(Command(sql: "SAVEPOINT b"), at: 0) }
            commands.append(generator.write())
            if dice.percent(60) { commands.append(Command(sql: "ROLLBACK TO b")) }
            commands.append(dice.percent(50) ? generator.query() : changes.question())
            commands.append(generator.write())
            return .block(commands, commits: dice.percent(50))
        default: return .run(changes.change())
        }
    }

    /// Statements that do not compile, or not with the values that they are given.
    private func mistake() -> Command {
        let name = quoted(generator.table().name)
        return Command(
            sql: dice.pick([
                "SELECT nowhere FROM \(name)", "SELECT * FROM missing", "INSERT INTO \(name) VALUES (1)",
                "INSERT INTO \(name)(nowhere) VALUES (1)", "UPDATE \(name) SET nowhere = 1", "DELETE FROM missing",
                "SELECT * FROM \(name) WHERE", "DELETE FROM \(name) WHERE nowhere = 1", "SELEC 1",
                "SELECT (SELECT 1, 2) FROM \(name)", "INSERT INTO \(name) SELECT 1", "SELECT count(*, 1) FROM \(name)",
                "SELECT main.\(name).nowhere FROM \(name)", "SELECT 1 IN \(name)",
            ])
        )
    }
}
