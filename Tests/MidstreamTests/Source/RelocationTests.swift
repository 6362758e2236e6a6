import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Target and source are in folders that get other paths, each by itself, like the containers of applications.
@Suite struct RelocationTests {
    enum Move: CaseIterable {
        case none, source, target, both, fileAlone
    }

    private let group = (TemporaryFolder(), TemporaryFolder())
    private let app = (TemporaryFolder(), TemporaryFolder())

    private func make(_ count: Int64 = 60, _ retirement: SourceRetirement = .drop) throws -> Database {
        let old = try Connection(path: app.0.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) INSERT INTO t SELECT i, i FROM n
                """
        )
        old.close()
        let database = try Database(path: group.0.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try database.addMigration(source: .file(app.0.file("old.db")), retirement: retirement) {
            $0.sourceTable = $0.name
        }
        try database.stepMigration(rows: 20)
        try database.execute("UPDATE t SET a = -a WHERE id IN (5, 45)")
        return database
    }

    private static let sum = "SELECT count(*) || ' ' || sum(a) FROM t"
    private static let whole = "60 \(60 * 61 / 2 - 2 * 50)"

    private func configuration(_ source: String?) -> DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        if let source { configuration.sourcePath = { _ in source } }
        return configuration
    }

    /// From its new place, the source still reaches the target by the path that it has stored. But the text of that
    /// path is not the one that it would store now.
    @Test(arguments: [false, true], [false, true])
    func theSourceMayComeToTheTargetsFolder(_ isCancelled: Bool, _ isKept: Bool) throws {
        let folder = TemporaryFolder()
        for name in ["a", "b"] { #expect(mkdir(folder.file(name), 0o755) == 0) }
        let (former, target, source) = (folder.file("b/old.db"), folder.file("a/new.db"), folder.file("a/old.db"))
        let old = try Connection(path: former)
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try old.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
        old.close()
        func add(_ database: Database, _ path: String) throws {
            try database.addMigration(source: .file(path), retirement: isKept ? .keep : .drop) {
                $0.sourceTable = $0.name
            }
        }
        let first = try Database(path: target)
        try first.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try add(first, former)
        try first.stepMigration(rows: 2)
        first.close()
        Files.moveDatabase(former, to: source)
        let database = try Database(path: target, configuration: configuration(source))
        try add(database, source)
        try database.execute("UPDATE t SET a = a * 10 WHERE id IN (1, 4)")
        if isCancelled { try database.cancelMigration() }
        try finishMigration(database)
        database.close()
        let plain = try Connection(path: isCancelled ? source : target)
        let all = "SELECT * FROM t ORDER BY id"
        #expect(texts(try plain.fetchAll(all)) == ["1|10", "2|2", "3|3", "4|40"])
        plain.close()
        // If all rows have moved, the call of the next launch begins nothing.
        let next = try Database(path: target)
        try add(next, source)
        #expect(next.isMigrated == !isCancelled)
        #expect(texts(try next.fetchAll(all)) == ["1|10", "2|2", "3|3", "4|40"])
    }

    @Test(arguments: Move.allCases, [false, true]) func theMigrationGoesOn(_ move: Move, _ hasAllRows: Bool) throws {
        let begun = try make()
        if hasAllRows { try begun.stepMigration(rows: 100) }
        begun.close()
        var (target, source) = (group.0.file("new.db"), app.0.file("old.db"))
        if move == .source || move == .both {
            Files.moveDatabase(source, to: app.1.file("old.db"))
            source = app.1.file("old.db")
        }
        if move == .target || move == .both {
            Files.moveDatabase(target, to: group.1.file("new.db"))
            target = group.1.file("new.db")
        }
        if move == .fileAlone {
            Files.moveDatabase(source, to: app.0.file("older.db"))
            source = app.0.file("older.db")
        }
        if !hasAllRows, move == .source || move == .fileAlone {
            let error = #expect(throws: MigrationError.self) { _ = try Database(path: target) }
            #expect(error?.code == .sourceUnavailable)
        }
        let database = try Database(path: target, configuration: configuration(source))
        #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
        // The stored path is right from now on.
        let other = try Database(path: target)
        #expect(try other.fetchValue(String.self, Self.sum) == Self.whole)
        try other.execute("UPDATE t SET a = a WHERE id > 50")
        try finishMigration(other)
        #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
        let plain = try Connection(path: source)
        #expect(
            try plain.fetchValue(Int64.self, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 't'")
                == 0
        )
        let refused = #expect(throws: SQLiteError.self) { try plain.execute("INSERT INTO t VALUES (100, 1)") }
        #expect(refused?.message.contains("new.db") ?? false)
    }

    /// The source's table has been dropped, and a view stands in its place.
    @Test(arguments: [Move.source, .both]) func aReleasedSourceMayBeMoved(_ move: Move) throws {
        let begun = try make()
        let reader = try Connection(path: group.0.file("new.db"))
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT * FROM t")
        for _ in 0..<1000 where try begun.stepMigration().outcome != .waitingForReaders {}
        begun.close()
        try reader.execute("COMMIT")
        reader.close()
        // This is the state of a process that dies after the release.
        let state = TemporaryFolder()
        Files.copyDatabase(group.0.file("new.db"), to: state.file("new.db"))
        let last = try Database(path: group.0.file("new.db"))
        try finishMigration(last)
        last.close()
        Files.removeDatabase(group.0.file("new.db"))
        let target = move == .both ? group.1.file("new.db") : group.0.file("new.db")
        Files.copyDatabase(state.file("new.db"), to: target)
        Files.moveDatabase(app.0.file("old.db"), to: app.1.file("old.db"))
        let database = try Database(path: target, configuration: configuration(app.1.file("old.db")))
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
        let refused = #expect(throws: SQLiteError.self) {
            try Connection(path: app.1.file("old.db")).execute("INSERT INTO t VALUES (100, 1)")
        }
        #expect(refused?.message.contains("new.db") ?? false)
    }

    /// Older versions of SQLite name a file by the links through which it was opened.
    @Test(arguments: [false, true]) func aFolderMayBeALink(_ isCancelled: Bool) throws {
        let links = TemporaryFolder()
        #expect(symlink(group.0.path, links.file("new")) == 0)
        #expect(symlink(app.0.path, links.file("old")) == 0)
        try make().close()
        let (target, source) = (links.file("new/new.db"), links.file("old/old.db"))
        let database = try Database(path: target, configuration: configuration(source))
        #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
        if isCancelled {
            try database.cancelMigration()
            for _ in 0..<4 {
                try database.stepMigration(rows: 8)
                try database.execute("UPDATE t SET a = a WHERE id > 50")
            }
        }
        database.close()
        let again = try Database(path: group.0.file("new.db"))
        #expect(try again.fetchValue(String.self, Self.sum) == Self.whole)
        try finishMigration(again)
        if isCancelled { try again.addMigration(source: .file(source)) { $0.sourceTable = $0.name } }
        #expect(try again.fetchValue(String.self, Self.sum) == Self.whole)
        try finishMigration(again)
    }

    /// To Swift, the names of the two folders are equal.
    @Test func twoFoldersMayHaveNamesThatLookTheSame() throws {
        let folder = TemporaryFolder()
        let names = ["\u{e9}", "e\u{301}"].map(folder.file)
        for name in names { #expect(mkdir(name, 0o700) == 0) }
        let (target, source, other) = (names[0] + "/new.db", names[1] + "/old.db", names[0] + "/old.db")
        for (path, value) in [(source, "right"), (other, "wrong")] {
            let connection = try Connection(path: path)
            try connection.execute(
                script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, '\(value)')"
            )
            connection.close()
        }
        let database = try Database(path: target)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try database.addMigration(source: .file(source)) { $0.sourceTable = "t" }
        database.close()
        let again = try Database(path: target)
        #expect(try again.fetchValue(String.self, "SELECT a FROM t") == "right")
        try finishMigration(again)
        #expect(try again.fetchValue(String.self, "SELECT a FROM t") == "right")
        #expect(try Connection(path: other).fetchValue(String.self, "SELECT a FROM t") == "wrong")
    }

    /// A process has died after it had updated the paths in the source, and before it could update the target.
    @Test func itIsTakenUpHalfWay() throws {
        try make().close()
        let (target, source) = (group.1.file("new.db"), app.1.file("old.db"))
        Files.moveDatabase(group.0.file("new.db"), to: target)
        Files.moveDatabase(app.0.file("old.db"), to: source)
        try Database(path: target, configuration: configuration(source)).close()
        let plain = try Connection(path: target)
        try plain.execute("UPDATE midstream_migrations SET source = '../gone/old.db'")
        plain.close()
        #expect(throws: MigrationError.self) { _ = try Database(path: target) }
        let database = try Database(path: target, configuration: configuration(source))
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
    }

    /// A copy does not take the rows from the original, wherever it says that the source is.
    @Test func aCopyDoesNotTakeTheOriginalsPlace() throws {
        let original = try make()
        original.close()
        Files.copyDatabase(group.0.file("new.db"), to: group.1.file("new.db"))
        let copy = try Database(path: group.1.file("new.db"), configuration: configuration(app.0.file("old.db")))
        #expect(try copy.fetchValue(String.self, Self.sum) == Self.whole)
        let error = #expect(throws: MigrationError.self) { try finishMigration(copy) }
        #expect(error?.code == .foreignState)
        let again = try Database(path: group.0.file("new.db"))
        #expect(try again.fetchValue(String.self, Self.sum) == Self.whole)
        try finishMigration(again)
        #expect(try again.fetchValue(String.self, Self.sum) == Self.whole)
    }

    private func expectRefusalOfAnotherFile() throws {
        let strange = try Connection(path: app.1.file("strange.db"))
        try strange.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        strange.close()
        let error = #expect(throws: MigrationError.self) {
            _ = try Database(path: group.0.file("new.db"), configuration: configuration(app.1.file("strange.db")))
        }
        #expect(error?.code == .foreignState)
    }

    @Test func anotherFileIsRefused() throws {
        try make().close()
        try expectRefusalOfAnotherFile()
        // If the closure does not know the source, the file is where it was.
        var unknown = DatabaseConfiguration()
        unknown.sourcePath = { _ in nil }
        let database = try Database(path: group.0.file("new.db"), configuration: unknown)
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
    }

    /// The calls that began a chain are made at each launch.
    @Test(arguments: [SourceRetirement.drop, .keep, .deleteFileWhenEmpty])
    func aChainIsKnownByTheTablesThatWereAskedFor(_ retirement: SourceRetirement) throws {
        var database = try make(60, retirement)
        // Seen from there, the target's path is not the one that the source knows.
        mkdir(app.1.file("deeper"), 0o755)
        let moved = app.1.file("deeper/old.db")
        let add: (String, MigrationSource) throws -> Void = { path, second in
            try database.addMigration(source: .file(path), retirement: retirement) {
                $0.sourceTable = $0.name == "t" ? "t" : nil
            }
            try database.addMigration(source: second, retirement: .keep) { $0.sourceTable = $0.name == "c" ? "t" : nil }
        }
        try database.execute("CREATE TABLE c(id INTEGER PRIMARY KEY, a)")
        try add(app.0.file("old.db"), .sameDatabase)
        database.close()
        Files.moveDatabase(app.0.file("old.db"), to: moved)
        let sum = Self.sum.replacing("FROM t", with: "FROM c")
        for launch in 0..<4 {
            database = try Database(path: group.0.file("new.db"), configuration: configuration(moved))
            try add(moved, .sameDatabase)
            #expect(try database.fetchValue(String.self, sum) == Self.whole)
            if launch == 1 { try database.stepMigration(rows: 10) }
            if launch > 1 { try finishMigration(database) }
            database.close()
        }
        #expect(Files.exists(moved) == (retirement != .deleteFileWhenEmpty))
    }

    /// A table of the second file moves on to the third, together with the rows that are in the first.
    @Test func theMiddleOfAChainOfFilesFindsTheFirst() throws {
        let middle = try make()
        middle.close()
        let third = try Database(path: group.1.file("third.db"))
        try third.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try third.addMigration(source: .file(group.0.file("new.db"))) { $0.sourceTable = $0.name }
        third.close()
        Files.moveDatabase(app.0.file("old.db"), to: app.1.file("old.db"))
        var configuration = DatabaseConfiguration()
        configuration.sourcePath = { [old = app.1.file("old.db")] in $0.hasSuffix("old.db") ? old : nil }
        for path in [group.1.file("third.db"), group.0.file("new.db")] {
            for configuration in [configuration, DatabaseConfiguration()] {
                let database = try Database(path: path, configuration: configuration)
                #expect(try database.fetchValue(String.self, Self.sum) == Self.whole)
                database.close()
            }
        }
        let last = try Database(path: group.1.file("third.db"))
        try finishMigration(last)
        #expect(try last.fetchValue(String.self, Self.sum) == Self.whole)
    }

    /// Nobody opens the file with what was moving. The calls that began its migration are still made at each launch.
    @Test(arguments: [SourceRetirement.drop, .keep, .deleteFileWhenEmpty], [false, true])
    func aTargetMayMoveWhenItsMigrationHasEnded(_ retirement: SourceRetirement, _ isEmptied: Bool) throws {
        let old = try Connection(path: app.0.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1); CREATE TABLE u(x)"
        )
        old.close()
        mkdir(group.1.file("deeper"), 0o755)
        let moved = group.1.file("deeper/new.db")
        for path in [group.0.file("new.db"), moved, moved] {
            let database = try Database(path: path, configuration: configuration(app.0.file("old.db")))
            try database.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, a)")
            try database.addMigration(source: .file(app.0.file("old.db")), retirement: retirement) {
                $0.sourceTable = $0.name == "t" ? "t" : nil
            }
            try finishMigration(database)
            if isEmptied { try database.execute("DELETE FROM t") }
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == (isEmptied ? 0 : 1))
            database.close()
            if path != moved { Files.moveDatabase(path, to: moved) }
        }
        // A file that has been made since is another one.
        Files.removeDatabase(moved)
        let fresh = try Database(path: moved)
        try fresh.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        let error = #expect(throws: MigrationError.self) {
            try fresh.addMigration(source: .file(app.0.file("old.db"))) { $0.sourceTable = $0.name == "t" ? "t" : nil }
        }
        #expect(error?.code == .foreignState, "\(String(describing: error))")
    }

    private func part(_ database: Database, _ condition: String, _ retirement: SourceRetirement) throws {
        try database.addMigration(source: .file(app.0.file("old.db")), retirement: retirement) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            table.condition = condition
        }
    }

    private func makeParts() throws -> Database {
        let old = try Connection(path: app.0.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"
        )
        old.close()
        let database = try Database(path: group.0.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        return database
    }

    /// Each account has a target of its own, and the first account's was removed.
    @Test func aTargetThatIsGoneKeepsNoOtherFromItsRows() throws {
        let first = try makeParts()
        try part(first, "id < 3", .drop)
        try finishMigration(first)
        first.close()
        Files.removeDatabase(group.0.file("new.db"))
        let second = try Database(path: group.1.file("other.db"))
        try second.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        for _ in 0..<2 { try part(second, "id >= 3", .drop) }
        try finishMigration(second)
        #expect(texts(try second.fetchAll("SELECT id FROM t")) == ["3"])
    }

    /// Some rows of the source have moved. Their claim still leads to the target from the source's former folder.
    @Test func aSourceMayBeMovedWhenAPartOfItHasMoved() throws {
        let (former, path) = (group.0.file("old.db"), app.1.file("old.db"))
        let old = try Connection(path: former)
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) INSERT INTO t SELECT i, i FROM n
                """
        )
        old.close()
        func add(_ database: Database, _ path: String) throws {
            try database.addMigration(source: .file(path)) { table in
                table.sourceTable = "t"
                table.condition = table.name == "low" ? "id < 1" : "id >= 1"
            }
        }
        let begun = try Database(path: group.0.file("new.db"))
        for name in ["low", "high"] { try begun.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, a)") }
        try add(begun, former)
        let done = "SELECT count(*) FROM main.midstream_tables WHERE phase = 4"
        for rows: Int64 in [12, 5, 10, 10, 10] where try begun.fetchValue(Int.self, done) == 0 {
            try begun.stepMigration(rows: rows)
        }
        #expect(try begun.fetchValue(Int.self, done) == 1)
        begun.close()
        Files.moveDatabase(former, to: path)
        let database = try Database(path: group.0.file("new.db"), configuration: configuration(path))
        try add(database, path)
        try finishMigration(database)
        try add(database, path)
        try finishMigration(database)
        #expect(try database.fetchAll("SELECT id FROM low").isEmpty)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM high") == 60)
    }

    @Test func whatHadMovedBeforeTheTargetDidKeepsTheRestFromReturning() throws {
        let begun = try makeParts()
        try part(begun, "id < 3", .keep)
        try finishMigration(begun)
        begun.close()
        Files.moveDatabase(group.0.file("new.db"), to: group.1.file("new.db"))
        let database = try Database(path: group.1.file("new.db"), configuration: configuration(app.0.file("old.db")))
        try part(database, "id >= 3", .keep)
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.message.contains("have moved before") == true, "\(String(describing: error))")
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT id FROM t ORDER BY id")) == ["1", "2", "3"])
    }

    @Test func theMiddleOfAChainTakesNoOtherFileForTheFirst() throws {
        try make().close()
        let third = try Database(path: group.1.file("third.db"))
        try third.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try third.addMigration(source: .file(group.0.file("new.db"))) { $0.sourceTable = $0.name }
        third.close()
        try expectRefusalOfAnotherFile()
        #expect(try Database(path: group.0.file("new.db")).fetchValue(String.self, Self.sum) == Self.whole)
    }
}
