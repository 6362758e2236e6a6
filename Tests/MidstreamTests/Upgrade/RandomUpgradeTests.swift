import Midstream
import SQLiteConnection
import Testing

/// Declared upgrades from one random schema to another, beside the same upgrades done offline.
///
/// `MIDSTREAM_FUZZ_SEED` replays the case that a failure prints; `MIDSTREAM_FUZZ_UPGRADES` says how many pairs are
/// tried.
@Suite struct RandomUpgradeTests {
    @Test func aFileComesToTheDeclaredSchemaWithAllItsRows() throws {
        let count = Files.environment("MIDSTREAM_FUZZ_UPGRADES").flatMap { Int($0) } ?? 60
        let seed = Files.environment("MIDSTREAM_FUZZ_SEED").flatMap { UInt64($0) } ?? 1
        print("upgrades: \(count) pairs of schemas, MIDSTREAM_FUZZ_SEED=\(seed)")
        var ways: [String: Int] = [:]
        for number in 0..<UInt64(count) {
            var dice = SeededGenerator(seed: seed &+ number)
            let from = RandomSchema(&dice)
            let to = Bool.random(using: &dice) ? from.changed(&dice) : RandomSchema(&dice)
            let next = Bool.random(using: &dice) ? to.changed(&dice) : RandomSchema(&dice)
            do {
                try run(
                    [from, to, next],
                    &dice,
                    &ways,
                    "MIDSTREAM_FUZZ_SEED=\(seed &+ number): \(from) -> \(to) -> \(next)"
                )
            } catch {
                Issue.record("MIDSTREAM_FUZZ_SEED=\(seed &+ number): \(from) -> \(to) -> \(next): \(error)")
            }
        }
        print("upgrades: \(ways.sorted { $0.key < $1.key })")
        #expect((ways["rebuild"] ?? 0) > count / 4)
        for way in ["statements", "foreseen online", "foreseen atOnce"] { #expect((ways[way] ?? 0) > 0, "\(way)") }
    }

    /// Without drops, columns that are not declared keep their values, whatever becomes of the other columns.
    @Test func columnsThatAreNotDeclaredKeepTheirValues() throws {
        let count = Files.environment("MIDSTREAM_FUZZ_UPGRADES").flatMap { Int($0) } ?? 60
        let seed = Files.environment("MIDSTREAM_FUZZ_SEED").flatMap { UInt64($0) } ?? 1
        var (kept, refused) = (0, 0)
        for number in 0..<UInt64(count) {
            var dice = SeededGenerator(seed: seed &+ number)
            let (from, to) = (RandomSchema(&dice), RandomSchema(&dice))
            let comment: Comment = "MIDSTREAM_FUZZ_SEED=\(seed &+ number): \(from) -> \(to)"
            let undeclared = from.columns.filter { !to.columns.contains($0) }
            if undeclared.isEmpty { continue }
            let folder = TemporaryFolder()
            let database = try Database(path: folder.file("app.db"))
            let parent = "CREATE TABLE p(id INTEGER PRIMARY KEY);"
            try database.execute(parent + from.statements.joined(separator: ";"))
            try database.execute(from.rows(20))
            for column in undeclared {
                for value in ["'01'", "'1e3'", "' 5'", "2.5", "x'31'"] {
                    let sql =
                        "UPDATE OR IGNORE t SET \(column) = \(value) WHERE k2 % 7 = \(Int.random(in: 0..<7, using: &dice))"
                    // A STRICT column may refuse the value.
                    try? database.execute(sql)
                }
            }
            let values = undeclared.map { "typeof(\($0)) || quote(\($0))" }.joined(separator: ", ")
            let sql = "SELECT CAST(k1 AS TEXT), CAST(k2 AS TEXT), \(values) FROM t"
            let before = Set(texts(try database.fetchAll(sql)))
            var options = SchemaOptions()
            options.rowsChangedAtOnce = Bool.random(using: &dice) ? 1000 : 0
            do {
                try database.upgrade(
                    to: DatabaseSchema(sql: parent + to.statements.joined(separator: ";")),
                    options: options
                )
                kept += 1
            } catch {
                refused += 1
            }
            #expect(Set(texts(try database.fetchAll(sql))) == before, comment)
            do {
                try finishMigration(database)
            } catch let error as MigrationError where error.code == .rowRefused {
                // The row stays where it is.
            }
            #expect(Set(texts(try database.fetchAll(sql))) == before, comment)
        }
        print("upgrades without drops: \(kept) made, \(refused) refused")
        #expect(kept > count / 4)
    }

    private func run(
        _ schemas: [RandomSchema],
        _ dice: inout SeededGenerator,
        _ ways: inout [String: Int],
        _ comment: String
    ) throws {
        let pair = try UpgradePair(
            "CREATE TABLE p(id INTEGER PRIMARY KEY);" + schemas[0].statements.joined(separator: ";") + ";"
                + schemas[0].rows(40)
        )
        var options = SchemaOptions()
        options.allowsDrops = true
        options.rowsChangedAtOnce = Int.random(in: 0..<3, using: &dice) == 0 ? 1000 : 0
        let count = "SELECT count(*) FROM t"
        var old = schemas[0]
        for schema in schemas.dropFirst() {
            let declared = DatabaseSchema(
                sql: (["CREATE TABLE p(id INTEGER PRIMARY KEY)"] + schema.statements).joined(separator: ";")
            )
            do {
                try Self.upgradeNatively(pair.native, old, schema)
            } catch is SQLiteError {
                // If rows do not fit, none of them is lost, either.
                do {
                    try pair.database.upgrade(to: declared, options: options)
                    #expect(
                        try pair.database.fetchValue(Int.self, count) == pair.native.fetchValue(Int.self, count),
                        "\(comment)"
                    )
                } catch {
                    Self.expectSame(pair, old, comment)
                }
                ways["refused", default: 0] += 1
                return
            }
            let foreseen = try pair.database.plan(for: declared, options: options)
            let plan = try pair.database.upgrade(to: declared, options: options)
            for change in plan.changes { ways["\(change.way)", default: 0] += 1 }
            #expect(foreseen.rebuilt.allSatisfy(plan.rebuilt.contains), "\(comment)\n\(foreseen)\n\(plan)")
            for table in foreseen.rebuilt { ways["foreseen \(table.way)", default: 0] += 1 }
            #expect(try pair.database.plan(for: declared, options: options).isEmpty, "\(comment)\n\(plan)")
            Self.expectSame(pair, schema, "\(comment)\n\(plan)")
            try pair.database.stepMigration(rows: Int64.random(in: 0..<30, using: &dice))
            for sql in Self.writes(schema, &dice) {
                try pair.native.execute(sql)
                try pair.database.execute(sql)
                Self.expectSame(pair, schema, "\(comment)\n\(plan)\n\(sql)")
            }
            old = schema
        }
        try finishMigration(pair.database)
        Self.expectSame(pair, old, comment)
        pair.database.close()
        let plain = try Connection(path: pair.path)
        defer { plain.close() }
        #expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok", "\(comment)")
        #expect(try plain.fetchAll("SELECT 1 FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty, "\(comment)")
    }

    /// Creates the new table, copies the columns that both tables have, drops the old table, and renames the new one.
    private static func upgradeNatively(_ connection: Connection, _ old: RandomSchema, _ new: RandomSchema) throws {
        let common = new.columns.filter(old.columns.contains).joined(separator: ", ")
        try connection.transaction {
            try connection.execute(
                script: new.createTable.replacing("CREATE TABLE t(", with: "CREATE TABLE u(") + ";"
                    + "INSERT INTO u(\(common)) SELECT \(common) FROM t; DROP TABLE t; ALTER TABLE u RENAME TO t"
            )
            for index in new.indexes { try connection.execute(index) }
        }
    }

    private static func writes(_ schema: RandomSchema, _ dice: inout SeededGenerator) -> [String] {
        let column = schema.columns.last ?? "k2"
        let key = Int.random(in: 1...40, using: &dice)
        return [
            "UPDATE t SET \(column) = 200 + k1 WHERE k1 = \(key)",
            "DELETE FROM t WHERE k1 BETWEEN \(key + 1) AND \(key + 3)",
            "INSERT OR IGNORE INTO t(\(schema.columns.joined(separator: ", "))) VALUES "
                + "(\(schema.columns.map { _ in "\(300 + key)" }.joined(separator: ", ")))",
        ]
    }

    private static func expectSame(_ pair: UpgradePair, _ schema: RandomSchema, _ comment: String) {
        let values = schema.columns.map { "typeof(\($0)) || \($0)" }.joined(separator: ", ")
        let sql = "SELECT \(values), * FROM (SELECT \(schema.columns.joined(separator: ", ")) FROM t) ORDER BY k1, k2"
        do {
            let (mine, native) = (texts(try pair.database.fetchAll(sql)), texts(try pair.native.fetchAll(sql)))
            if mine != native {
                let (surplus, missing) = (Set(mine).subtracting(native), Set(native).subtracting(mine))
                Issue.record("\(comment)\nsurplus \(surplus.sorted().prefix(3)), missing \(missing.sorted().prefix(3))")
            }
        } catch {
            Issue.record("\(comment)\n\(error)")
        }
    }
}
