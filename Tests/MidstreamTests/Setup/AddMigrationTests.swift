import Midstream
import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

/// A migration that does not fit is reported before anything is changed.
@Suite struct AddMigrationTests {
    /// Adds a migration that must be refused, and checks that it has left nothing behind.
    private func refusal(
        source: String,
        target: String,
        from table: String = "s",
        condition: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> MigrationError? {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        for (path, sql) in [(old, source), (new, target)] {
            let connection = try Connection(path: path)
            try connection.execute(script: sql)
            connection.close()
        }
        let database = try Database(path: new)
        let before = try MovingFixture.objects(old) + MovingFixture.objects(new)
        let error = #expect(throws: MigrationError.self, sourceLocation: sourceLocation) {
            try database.addMigration(source: .file(old)) { wish in
                guard wish.name == "t" else { return }
                wish.sourceTable = table
                wish.condition = condition
            }
        }
        let after = try MovingFixture.objects(old) + MovingFixture.objects(new)
        #expect(before == after, sourceLocation: sourceLocation)
        #expect(database.isMigrated, sourceLocation: sourceLocation)
        // The database can be used, and so can the source.
        _ = try database.fetchAll("SELECT * FROM t")
        let plain = try Connection(path: old)
        _ = try plain.fetchAll("SELECT name FROM sqlite_master")
        return error
    }

    @Test func aPathThatIsWrong() throws {
        let fixture = try MovingFixture(rows: 1)
        let database = try Database(path: fixture.target)
        let path = fixture.folder.file("missing.db")
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, path) }
        #expect(error?.code == .sourceUnavailable)
        #expect(error?.message.contains(path) == true)
        #expect(!Files.exists(path))
        #expect(database.isMigrated)
    }

    @Test func aFileThatIsNoDatabase() throws {
        let fixture = try MovingFixture(rows: 1)
        let database = try Database(path: fixture.target)
        let path = fixture.folder.file("text.db")
        for _ in 0..<2000 { Files.mark(path) }
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, path) }
        #expect(error?.code == .sourceUnavailable)
        #expect(error?.cause?.code == .notADatabase)
        #expect(Files.size(path) == 2000)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 0)
    }

    @Test func theTargetItself() throws {
        let fixture = try MovingFixture(rows: 1)
        let database = try Database(path: fixture.target)
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.target) }
        #expect(error?.code == .misuse)
    }

    @Test func aTableThatIsMissing() throws {
        let error = try refusal(source: "CREATE TABLE other(x)", target: "CREATE TABLE t(x)")
        #expect(error?.code == .missingTable && error?.table == "t")
        #expect(error?.message.contains("there is no table s in ") == true)
    }

    @Test func aViewInATablesPlace() throws {
        let error = try refusal(source: "CREATE VIEW s AS SELECT 1 AS x", target: "CREATE TABLE t(x)")
        #expect(error?.code == .missingTable)
    }

    @Test(arguments: [
        ("CREATE TABLE s(a, b)", "CREATE TABLE t(a)", "the target lacks b"),
        ("CREATE TABLE s(a)", "CREATE TABLE t(a, c)", "the source lacks c"),
        ("CREATE TABLE s(a, id INTEGER)", "CREATE TABLE t(a, id INTEGER PRIMARY KEY)", "must be made of the rowid"),
        (
            "CREATE TABLE s(a INTEGER PRIMARY KEY, b INTEGER)", "CREATE TABLE t(a INTEGER, b INTEGER PRIMARY KEY)",
            "must be made of the rowid"
        ),
        ("CREATE TABLE s(a, b)", "CREATE TABLE t(a UNIQUE, b)", "has no index on (a)"),
    ])
    func tablesThatDoNotFit(_ source: String, _ target: String, _ message: String) throws {
        let error = try refusal(source: source, target: target)
        #expect(error?.code == .unequalTables && error?.table == "t")
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }

    @Test func tablesWhoseRowIDCannotBeNamed() throws {
        let columns = "(rowid, oid, _rowid_)"
        let error = try refusal(source: "CREATE TABLE s\(columns)", target: "CREATE TABLE t\(columns)")
        #expect(error?.code == .unsupported && error?.table == "t")
        #expect(error?.message.contains("cannot be named") == true, "\(error?.message ?? "")")
    }

    @Test(.needs(.generatedColumns)) func aColumnThatIsGeneratedFromConvertedOnes() throws {
        let error = try refusal(source: "CREATE TABLE s(a TEXT)", target: "CREATE TABLE t(a INTEGER, b AS (a) STORED)")
        #expect(error?.code == .unsupported && error?.table == "t")
        #expect(
            error?.message.contains("column b of table t is generated from columns that are not copied") == true,
            "\(error?.message ?? "")"
        )
    }

    @Test func rowsOfTheTargetWithAKeyThatIsToCome() throws {
        let table = "(id INTEGER PRIMARY KEY, x TEXT UNIQUE COLLATE NOCASE)"
        let byID = try refusal(
            source: "CREATE TABLE s\(table); INSERT INTO s VALUES (1, 'a'), (2, 'b')",
            target: "CREATE TABLE t\(table); INSERT INTO t VALUES (2, 'c')"
        )
        #expect(byID?.code == .keyCollision && byID?.key == 2)
        let words = "a row (rowid 2) with the same (id) as a row of source table s (rowid 2):"
        #expect(byID?.message.contains(words) == true, "\(byID?.message ?? "")")
        let byName = try refusal(
            source: "CREATE TABLE s\(table); INSERT INTO s VALUES (1, 'a'), (2, 'b')",
            target: "CREATE TABLE t\(table); INSERT INTO t VALUES (7, 'A')"
        )
        #expect(byName?.code == .keyCollision && byName?.key == 7)
        let other = "a row (rowid 7) with the same (x) as a row of source table s (rowid 1):"
        #expect(byName?.message.contains(other) == true, "\(byName?.message ?? "")")
    }

    @Test(arguments: [
        ("x >", MigrationError.Code.unequalTables), ("nowhere = 1", .unequalTables), ("1) OR (1", .unequalTables),
        ("x = 1; DROP TABLE s", .unequalTables), ("x = ?", .unsupported), ("", .unequalTables),
        ("random() % 2 = 0", .unsupported), ("x IN (SELECT y FROM other)", .unsupported), ("1) --", .unequalTables),
        ("x = datetime('now')", .unsupported), ("count(*) > 1", .unequalTables),
        ("x = current_timestamp", .unsupported), ("x < date(\"now\")", .unsupported),
        ("x < date('no' || 'w')", .unsupported), ("x < date(x'6e6f77')", .unsupported), ("x < date()", .unsupported),
        ("x < strftime('%Y')", .unsupported), ("x < datetime(x, lower('LOCALTIME'))", .unsupported),
        ("x < datetime(x, \"LocalTime\")", .unsupported), ("x < [julianday](/* */ `now`)", .unequalTables),
        ("x LIKE 'a%'", .unsupported), ("x not like 'a%'", .unsupported), ("like('a%', x)", .unsupported),
    ])
    func aConditionThatCannotBe(_ condition: String, _ code: MigrationError.Code) throws {
        let error = try refusal(
            source: "CREATE TABLE s(x); INSERT INTO s VALUES (1), (2); CREATE TABLE other(y)",
            target: "CREATE TABLE t(x)",
            condition: condition
        )
        #expect(error?.code == code && error?.table == "t", "\(condition): \(error.map { "\($0)" } ?? "")")
    }

    /// SQLite limits the depth of an expression, and adds up the depths of queries within queries.
    @Test(arguments: [100, 180, 250, 990, 998, 1500]) func aConditionOfManyTerms(_ count: Int) throws {
        let folder = TemporaryFolder()
        let terms = (0..<count).map { "x = \($0)" }.joined(separator: " OR ")
        try Connection(path: folder.file("old.db")).execute(
            script: "CREATE TABLE s(x); INSERT INTO s VALUES (1), (2), (-1)"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(x)")
        do {
            try database.addMigration(source: .file(folder.file("old.db"))) {
                ($0.sourceTable, $0.condition) = ("s", terms)
            }
        } catch let error as MigrationError {
            #expect(count > 180 && "\(error)".contains("too large"), "\(error)")
            #expect(count > 999 || error.code == .unsupported && error.message.contains("write IN"))
            #expect(error.table == "t" && database.isMigrated)
            return
        }
        #expect(count <= 180)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try database.execute("UPDATE t SET x = 3 WHERE x = 2")
        #expect(texts(try database.fetchAll("SELECT x FROM t ORDER BY x")) == ["1", "3"])
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    /// The table could not be read, and by then its source would be fenced.
    @Test(
        arguments: ["abs(x) > 1", "x > 5 AND ABS (y) > 1", "\"abs\"(x) > 1", "x GLOB y"]
            + SQLiteFeature.jsonFunctions.ifAvailable(["json_extract(y, '$.k') > 1", "json_type(y) = 'object'"])
            + SQLiteFeature.jsonOperators.ifAvailable(["y ->> '$.k' > 1", "y->'$.k' IS NOT NULL"])
    )
    func aConditionThatFailsOnARow(_ condition: String) throws {
        let source =
            "CREATE TABLE s(x, y); INSERT INTO s VALUES (1, '{}'), (\(Int64.min), 2), (7, 'no JSON'), (8, \(Int64.min)), "
            + "(9, printf('%.60000c', '*'))"
        let error = try refusal(source: source, target: "CREATE TABLE t(x, y)", condition: condition)
        #expect(error?.code == .unsupported && error?.message.contains(" of source table s (rowid") == true)
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute(script: source)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(x, y)")
        try database.addMigration(source: .file(folder.file("old.db"))) {
            ($0.sourceTable, $0.condition) = (
                "s", "CASE WHEN typeof(x) = 'text' THEN \(condition) ELSE x IN (1, 7) END"
            )
        }
        try finishMigration(database)
        #expect(try texts(database.fetchAll("SELECT x FROM t")) == ["1", "7"])
    }

    /// A column that the source generates as it is read counts as if its expression stood in the condition.
    @Test(
        .needs(.generatedColumns),
        arguments: ["x LIKE 'a%'", "abs(x) > 1"],
        ["condition", "by way of another", "stored", "column", "mapped", "not read"]
    )
    func aColumnThatIsGeneratedAsItIsRead(_ expression: String, _ way: String) throws {
        let folder = TemporaryFolder()
        let columns = "(x, g AS (\(expression)) \(way == "stored" ? "STORED" : ""), h AS (g + 1))"
        let isLike = expression.contains("LIKE")
        let rows = isLike ? "('a'), ('b')" : "(1), (-9223372036854775807 - 1)"
        if way == "stored", !isLike { return }
        let old = try Connection(path: folder.file("old.db"))
        // SQLite computes the column for a new row.
        try old.execute("CREATE TABLE s\(way == "stored" ? columns : "(x)")")
        try old.execute("INSERT INTO s(x) VALUES \(rows)")
        if way != "stored" {
            try old.execute(
                script: "ALTER TABLE s ADD COLUMN g AS (\(expression)); ALTER TABLE s ADD COLUMN h AS (g + 1)"
            )
        }
        old.close()
        let database = try Database(path: folder.file("new.db"))
        let isCopied = way == "column" || way == "mapped"
        try database.execute("CREATE TABLE t" + (isCopied ? "(x, \(way == "mapped" ? "y" : "g"))" : columns))
        func add() throws {
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                table.sourceTable = "s"
                if isCopied { table.unmatchedColumns = .ignored }
                if way == "mapped" { table.columns = ["y": .column("g")] }
                if ["condition", "stored"].contains(way) { table.condition = "g = 1" }
                if way == "by way of another" { table.condition = "\"H\" = 2" }
            }
        }
        if way == "stored" || way == "not read" && isLike {
            try add()
        } else {
            let error = #expect(throws: MigrationError.self) { try add() }
            let isOfRow = !isLike && (way == "not read" || isCopied)
            #expect(error?.code == (isOfRow ? .rowRefused : .unsupported), "\(String(describing: error))")
        }
    }

    /// The clock would decide on which side the row is.
    @Test(
        .enabled(if: Connection.libraryVersionNumber >= 3_020_000),
        arguments: ["julianday(x) < 5", "strftime('%s', \"X\") > '0'", "datetime('2020-01-01', y) > '2020'"]
    )
    func aConditionThatAsksARowForThePresent(_ condition: String) throws {
        let error = try refusal(
            source: "CREATE TABLE s(x, y); INSERT INTO s VALUES ('2020-01-01', 1), ('Now', 'localtime')",
            target: "CREATE TABLE t(x, y)",
            condition: condition
        )
        #expect(error?.code == .unsupported && error?.table == "t", "\(error.map { "\($0)" } ?? "")")
    }

    /// Before SQLite 3.20, no function of dates depends on its arguments alone.
    private static let dates = [
        "date(x) < '2030-01-01'", "date(x / 1000, 'unixepoch', '+1 day') < '2030-01-01'",
        "strftime('%Y', s.\"x\") < '2030'", "julianday((x)) > 0",
    ]

    @Test(
        arguments: ["\"like\" IS NULL", "x GLOB 'a*' OR x <> 'LIKE'"]
            + (Connection.libraryVersionNumber >= 3_020_000 ? dates : [])
    )
    func aConditionThatDependsOnTheRowAlone(_ condition: String) throws {
        let folder = TemporaryFolder()
        let connection = try Connection(path: folder.file("old.db"))
        try connection.execute(script: "CREATE TABLE s(x, like); INSERT INTO s VALUES (1577836800000, NULL)")
        connection.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(x, like)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "s"
            table.condition = condition
        }
        try finishMigration(database)
    }

    @Test(arguments: [true, false])
    func twoConditionsThatClaimTheSameRow(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        for path in isSameFile ? [new] : [old] {
            let connection = try Connection(path: path)
            try connection.execute(script: "CREATE TABLE s(x); INSERT INTO s VALUES (1), (2), (3), (NULL)")
            connection.close()
        }
        let database = try Database(path: new)
        try database.execute("CREATE TABLE low(x); CREATE TABLE high(x); CREATE TABLE other(x)")
        func add(_ conditions: [String: String]) throws {
            try database.addMigration(source: isSameFile ? .sameDatabase : .file(old)) { table in
                guard let condition = conditions[table.name] else { return }
                table.sourceTable = "s"
                table.condition = condition
            }
        }
        let before = try MovingFixture.objects(new)
        let error = #expect(throws: MigrationError.self) { try add(["low": "x <= 2", "high": "x >= 2"]) }
        #expect(error?.code == .foreignState)
        #expect(try MovingFixture.objects(new) == before)
        // Now the conditions are right; then comes one more that is not.
        try add(["low": "x < 2", "high": "x >= 2"])
        let later = #expect(throws: MigrationError.self) { try add(["low": "x < 2", "other": "x = 3"]) }
        #expect(later?.code == .foreignState)
        #expect(try database.fetchAll("SELECT x FROM low").map { $0[0] } == [.integer(1)])
        #expect(try database.fetchAll("SELECT x FROM high").map { $0[0] } == [.integer(2), .integer(3)])
    }

    @Test(arguments: [true, false])
    func aSourceWithRowsThatNobodyClaimsStays(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        let connection = try Connection(path: isSameFile ? new : old)
        try connection.execute(script: "CREATE TABLE s(x, archived); INSERT INTO s VALUES (1, 0), (2, 1), (3, NULL)")
        connection.close()
        let database = try Database(path: new)
        try database.execute("CREATE TABLE current(x, archived); CREATE TABLE archive(x, archived)")
        let reasons = Collected()
        database.onMigrated {
            if case .sourceKept(let table, _, let reason) = $0 { reasons.add("\(table): \(reason)") }
        }
        func add() throws {
            try database.addMigration(source: isSameFile ? .sameDatabase : .file(old)) { table in
                guard table.name == "current" || table.name == "archive" else { return }
                table.sourceTable = "s"
                table.condition = table.name == "current" ? "archived = 0" : "NOT (archived = 0)"
            }
        }
        try add()
        try finishMigration(database)
        #expect(reasons.all.last == "s: 1 of its rows belongs to no migration")
        #expect(try MovingFixture.count("s", in: isSameFile ? new : old) == 3)
        #expect(
            try database.fetchValue(Int.self, "SELECT (SELECT count(*) FROM current) * 10 + count(*) FROM archive")
                == 11
        )
        // At the next launch nothing begins again.
        try add()
        #expect(database.isMigrated)
    }
}

/// Collects what a closure is told, on any thread.
final class Collected: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }

    /// A table of which a part can move; `x` is up to 20.
    private func makePartOfTable(_ retirement: SourceRetirement = .drop, isSameFile: Bool = false) throws -> (
        TemporaryFolder, Database, (String?) throws -> Void
    ) {
        let folder = TemporaryFolder()
        let new = folder.file("new.db")
        let old = isSameFile ? new : folder.file("old.db")
        let connection = try Connection(path: old)
        try connection.execute(
            script: """
                CREATE TABLE s(x INTEGER PRIMARY KEY, a);
                INSERT INTO s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) SELECT i, i % 3 FROM n
                """
        )
        connection.close()
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(x INTEGER PRIMARY KEY, a)")
        func add(_ condition: String?) throws {
            try database.addMigration(source: isSameFile ? .sameDatabase : .file(old), retirement: retirement) {
                table in
                guard table.name == "t" else { return }
                table.sourceTable = "s"
                table.condition = condition
            }
        }
        return (folder, database, add)
    }

    /// The rows of the second condition would be missing from what statements read, and nobody would be told.
    @Test func otherRowsAreNotAskedForWhileSomeMove() throws {
        let (folder, database, add) = try makePartOfTable()
        defer { _ = folder }
        try add("a = 0")
        try database.stepMigration(rows: 2)
        for other in ["a = 1", "a = 0 OR a = 1", nil] {
            let error = #expect(throws: MigrationError.self) { try add(other) }
            #expect(error?.code == .misuse)
            #expect(error?.message.contains("the rows that meet a = 0") == true)
        }
        // This is the same condition, written differently.
        try add("A=0 -- none")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 6)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 6)
    }

    @Test(arguments: [SourceRetirement.drop, .keep], [false, true])
    func otherRowsMayFollowWhenSomeHaveMoved(_ retirement: SourceRetirement, _ isSameFile: Bool) throws {
        let (folder, database, add) = try makePartOfTable(retirement, isSameFile: isSameFile)
        try add("a = 0")
        try finishMigration(database)
        try database.execute("DELETE FROM t WHERE x = 3; UPDATE t SET a = 7 WHERE x = 6")
        // A migration that asks for moved rows again does not bring them back.
        for (condition, code) in [(nil, MigrationError.Code.keyCollision), ("x = 3", .foreignState)] {
            let error = #expect(throws: MigrationError.self) { try add(condition) }
            #expect(error?.code == code)
        }
        try add("a <> 0")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 19)
        try database.stepMigration(rows: 5)
        try database.execute("UPDATE t SET a = 8 WHERE x IN (1, 20)")
        try finishMigration(database)
        try add("a <> 0")
        #expect(database.isMigrated)
        let rows = try database.fetchValue(
            String.self,
            "SELECT group_concat(x || ':' || a, ' ') FROM (SELECT * FROM t ORDER BY x)"
        )
        #expect(rows == "1:8 2:2 4:1 5:2 6:7 7:1 8:2 9:0 10:1 11:2 12:0 13:1 14:2 15:0 16:1 17:2 18:0 19:1 20:8")
        let names = "sqlite_master WHERE name = 's' AND type = 'table'"
        let stays = try MovingFixture.count(names, in: folder.file(isSameFile ? "new.db" : "old.db")) == 1
        #expect(stays == (retirement == .keep))
        if isSameFile, stays { #expect(throws: SQLiteError.self) { try database.execute("DELETE FROM s") } }
    }

    /// Nobody can write what is kept of a table that has moved: such rows would end where they cannot be reached.
    @Test(arguments: [false, true]) func aTableWhoseRowsHaveMovedTakesNone(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, v);"
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: create + "INSERT INTO t VALUES (1, 1), (2, 2)")
        old.close()
        let middle = try Database(path: folder.file("middle.db"))
        try middle.execute(create + "INSERT INTO t VALUES (9, 9); CREATE TABLE u(id INTEGER PRIMARY KEY, v)")
        let new = isSameFile ? middle : try Database(path: folder.file("new.db"))
        if !isSameFile { try new.execute("CREATE TABLE u(id INTEGER PRIMARY KEY, v)") }
        let source = isSameFile ? MigrationSource.sameDatabase : .file(folder.file("middle.db"))
        try new.addMigration(source: source, retirement: .keep) { $0.sourceTable = $0.name == "u" ? "t" : nil }
        try finishMigration(new)
        let error = #expect(throws: MigrationError.self) {
            try middle.addMigration(source: .file(folder.file("old.db"))) {
                $0.sourceTable = $0.name == "t" ? "t" : nil
            }
        }
        #expect(error?.code == .misuse)
        #expect(error?.message.contains("table t is moving to table u of") == true, "\(error?.message ?? "none")")
        #expect(try new.fetchValue(Int.self, "SELECT count(*) FROM u") == 1)
        // Made anew, the table is like any other.
        try middle.execute("DROP TABLE t;" + create)
        try middle.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name == "t" ? "t" : nil }
        try finishMigration(middle)
        #expect(try middle.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    @Test(arguments: [SourceRetirement.drop, .keep], [false, true])
    func aTableThatWasRenamedSinceItsRowsCameIsToldOf(_ retirement: SourceRetirement, _ isRetired: Bool) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE a(id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1, 1), (2, 2)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE b(id INTEGER PRIMARY KEY, v)")
        let add: (String) throws -> Void = { name in
            try database.addMigration(source: .file(folder.file("old.db")), retirement: retirement) {
                $0.sourceTable = $0.name == name ? "a" : nil
            }
        }
        try add("b")
        try database.stepMigration(rows: 1)
        if isRetired { try finishMigration(database) }
        try database.execute("ALTER TABLE b RENAME TO c")
        let error = #expect(throws: MigrationError.self) { try add("c") }
        #expect(error?.code == .foreignState, "\(String(describing: error))")
        #expect(
            error?.message.contains("If it was renamed to c, nothing is left to do") == true,
            "\(error?.message ?? "none")"
        )
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT sum(v) FROM c") == 3)
    }

    /// Rows that had moved before have changed since, or have been deleted.
    @Test(arguments: [false, true]) func whatFollowsDoesNotReturn(_ isSameFile: Bool) throws {
        let (folder, database, add) = try makePartOfTable(.keep, isSameFile: isSameFile)
        defer { _ = folder }
        try add("a = 0")
        try finishMigration(database)
        try add("a <> 0")
        try database.stepMigration(rows: 5)
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("other rows of that table have moved before") == true)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 20)
    }

    // MARK: Texts that are equal to Swift

    /// An accented letter, and a letter with an accent of its own.
    private static let twins = ["\u{e9}", "e\u{301}"]

    @Test func filesWhoseNamesLookTheSameAreTwo() throws {
        let folder = TemporaryFolder()
        let files = Self.twins.map { folder.file($0 + ".db") }
        for (index, file) in files.enumerated() {
            let old = try Connection(path: file)
            for name in ["a", "b"] {
                try old.execute("CREATE TABLE \(name)(x)")
                try old.execute("INSERT INTO \(name) VALUES (\(index))")
            }
            old.close()
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE a(x); CREATE TABLE b(x)")
        for (file, name) in zip(files, ["a", "b"]) {
            try database.addMigration(source: .file(file)) { if $0.name == name { $0.sourceTable = name } }
        }
        for _ in 0..<2 {
            #expect(texts(try database.fetchAll("SELECT * FROM a, b")) == ["0|1"])
            try finishMigration(database)
        }
        #expect(try MovingFixture.count("a WHERE x = 1", in: files[1]) == 1)
    }

    @Test func conditionsThatLookTheSameAreTwo() throws {
        let (folder, database, add) = try makePartOfTable()
        defer { _ = folder }
        try add("a = 0 AND x <> '\(Self.twins[0])'")
        let error = #expect(throws: MigrationError.self) { try add("a = 0 AND x <> '\(Self.twins[1])'") }
        #expect(error?.code == .misuse)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 6)
    }

    @Test func tablesWhoseNamesLookTheSameAreRefused() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        for name in Self.twins + ["s"] { try database.execute("CREATE TABLE \"\(name)\"(x)") }
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .sameDatabase) { if $0.name != "s" { $0.sourceTable = "s" } }
        }
        #expect(error?.code == .unsupported)
    }

    /// To Swift, a quote with an accent is another character.
    @Test func aQuoteMayHaveAnAccent() throws {
        let folder = TemporaryFolder()
        let file = folder.file("o'\u{301}ld.db")
        let old = try Connection(path: file)
        try old.execute("CREATE TABLE \"o'\u{301}x\"(x)")
        try old.execute("INSERT INTO \"o'\u{301}x\" VALUES (1), (2)")
        old.close()
        let database = try Database(path: folder.file("n'\u{301}w.db"))
        try database.execute("CREATE TABLE \"t'\u{301}\"(x DEFAULT '''\u{301}')")
        try database.addMigration(source: .file(file)) { table in
            table.sourceTable = "o'\u{301}x"
            table.condition = "x <> '''\u{301}'"
        }
        let sql = "SELECT sum(x) FROM \"t'\u{301}\""
        #expect(try database.fetchValue(Int.self, sql) == 3)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, sql) == 3)
    }

    /// A row that is made so cannot be changed so that it fits, nor can it go back once others have come.
    @Test(arguments: ["b + 1", "NULL", "default"]) func aColumnThatIsMadeNullAndMayNotBe(_ made: String) throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(
            script:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 1), (2, NULL), (3, 3), (4, NULL)"
        )
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, c NOT NULL)")
        let before = try MovingFixture.objects(old) + MovingFixture.objects(new)
        func add(_ policy: RefusedRowPolicy) throws {
            try database.addMigration(source: .file(old)) { table in
                guard table.name == "t" else { return }
                table.sourceTable = "t"
                table.unmatchedColumns = .ignored
                table.refusedRows = policy
                if made != "default" { table.columns["c"] = .expression(made) }
            }
        }
        let error = #expect(throws: MigrationError.self) { try add(.stop) }
        #expect(error?.code == .rowRefused && error?.key == (made == "b + 1" ? 2 : 1))
        let rows =
            made == "b + 1" ? "2 rows of source table t (rowids 2, 4)" : "4 rows of source table t (rowids 1, 2, 3, …)"
        #expect(
            error?.message.hasPrefix("\(rows) do not fit table t: NULL in column c") == true,
            "\(error?.message ?? "")"
        )
        #expect(try MovingFixture.objects(old) + MovingFixture.objects(new) == before)
        try add(.setAside)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == (made == "b + 1" ? 2 : 0))
    }
}
