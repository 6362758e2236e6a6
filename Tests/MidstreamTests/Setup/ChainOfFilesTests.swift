import Midstream
import SQLiteConnection
import Testing

/// Tables that move on into a third file before all their rows have come into the second.
@Suite struct ChainOfFilesTests {
    private let folder = TemporaryFolder()

    private var old: MigrationSource { .file(folder.file("old.db")) }
    private var new: MigrationSource { .file(folder.file("new.db")) }

    private static let second: @Sendable (inout TableMigration) -> Void = { table in
        if table.name == "b" { table.sourceTable = "a" }
    }

    private static let third: @Sendable (inout TableMigration) -> Void = { table in
        guard table.name == "c" else { return }
        table.sourceTable = "b"
        table.columns["label"] = .expression("name || '/' || n")
        table.columns["m"] = .column("n")
        table.unmatchedColumns = .ignored
    }

    private static let columns = "(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n TEXT)"
    private static let keyed = "(id INTEGER, name TEXT UNIQUE, n TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID"
    private static let last = "(label TEXT, id INTEGER PRIMARY KEY, name TEXT UNIQUE, m TEXT, flag DEFAULT 7)"
    private static let lastKeyed =
        "(label TEXT, id INTEGER, name TEXT UNIQUE, m TEXT, flag DEFAULT 7, PRIMARY KEY (name, id)) WITHOUT ROWID"

    private static let rows = (1...9).map { "(\($0), 'n\($0)', '0\($0)')" }.joined(separator: ", ")

    /// Makes the first two files, and moves the given number of rows.
    private func begin(moved: Int64, isKeyed: Bool = false, converts: Bool = false) throws -> Connection {
        let columns = isKeyed ? Self.keyed : Self.columns
        let middle = converts ? "(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER)" : columns
        let native = try Connection(path: folder.file("plain.db"))
        for connection in [native, try Connection(path: folder.file("old.db"))] {
            try connection.execute(script: "CREATE TABLE a\(columns); INSERT INTO a VALUES \(Self.rows)")
        }
        try native.execute(script: "CREATE TABLE b\(columns); INSERT INTO b SELECT * FROM a")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE b\(middle); CREATE TABLE other(x)")
        try database.addMigration(source: old, filter: Self.second)
        if moved > 0 { try database.stepMigration(rows: moved) }
        for sql in [
            "UPDATE b SET n = 77 WHERE id = 8", "DELETE FROM b WHERE name = 'n6'",
            "INSERT INTO b(id, name, n) VALUES (20, 'new', 1)",
        ] {
            try database.execute(sql)
            try native.execute(sql)
        }
        database.close()
        return native
    }

    private func openThird() throws -> Database {
        let database = try Database(path: folder.file("third.db"))
        try database.addMigration(source: new, filter: Self.third)
        return database
    }

    private func objects(_ file: String) throws -> [String] { try MovingFixture.objects(folder.file(file)) }

    @Test(arguments: [(0, 0), (3, 0), (0, 2), (4, 3), (9, 1)] as [(Int64, Int64)], [false, true])
    func aTargetIsTheSourceOfAnotherFile(_ moved: (first: Int64, second: Int64), _ isKeyed: Bool) throws {
        let native = try begin(moved: moved.first, isKeyed: isKeyed)
        let created = "CREATE TABLE c\(isKeyed ? Self.lastKeyed : Self.last)"
        try native.execute(
            script:
                "\(created); INSERT INTO c(id, label, name, m) SELECT id, name || '/' || n, name, n FROM b; DROP TABLE b"
        )
        let plain = try Connection(path: folder.file("third.db"))
        try plain.execute(created)
        plain.close()
        var database = try openThird()
        if moved.second > 0 { try database.stepMigration(rows: moved.second) }
        func expectSame(_ location: SourceLocation = #_sourceLocation) throws {
            for sql in [
                "SELECT * FROM c ORDER BY id", "SELECT count(*), max(name), min(m) FROM c WHERE flag = 7",
                "SELECT id FROM c WHERE name = 'n7'",
            ] {
                let found = texts(try database.fetchAll(sql))
                #expect(try found == texts(native.fetchAll(sql)), "\(sql)", sourceLocation: location)
            }
        }
        try expectSame()
        for sql in [
            "UPDATE c SET label = 'x' WHERE m = '77'", "UPDATE c SET name = 'n6' WHERE id = 2",
            "DELETE FROM c WHERE id IN (3, 9)", "INSERT INTO c(id, name) VALUES (30, 'n9')",
            "INSERT OR REPLACE INTO c(id, name) VALUES (1, 'n7')",
        ] {
            try database.execute(sql)
            try native.execute(sql)
            try expectSame()
            try database.stepMigration(rows: 1)
            // The next launch makes the same calls.
            database.close()
            database = try openThird()
            try expectSame()
        }
        try finishMigration(database)
        try expectSame()
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        #expect(try objects("third.db").filter { $0.contains("midstream") } == [])
        database.close()
        for (file, table) in [("old.db", "a"), ("new.db", "b")] {
            #expect(try MovingFixture.count(table, in: folder.file(file)) == 0)
            #expect(try objects(file).contains { $0.contains("midstream_fence") })
        }
        // The middle file keeps its claims, and what belongs to nobody.
        #expect(
            try objects("new.db").filter { $0.contains("midstream_state") || $0.contains("midstream_ledger") } == []
        )
        // Every launch makes the same calls, for files that have given everything.
        try openThird().close()
        let middle = try Database(path: folder.file("new.db"))
        try middle.addMigration(source: old, filter: Self.second)
        #expect(middle.isMigrated)
    }

    /// A connection that still opens the second file sees the table as it was when it moved on. Its writes of the table
    /// are refused.
    @Test(arguments: [0, 3] as [Int64]) func theMiddleIsReadAsItWasAndNotWritten(_ moved: Int64) throws {
        let native = try begin(moved: moved)
        let whole = texts(try native.fetchAll("SELECT * FROM b ORDER BY id"))
        // This connection had the file open before, also in the midst of a transaction.
        let before = try Database(path: folder.file("new.db"))
        let third = try Database(path: folder.file("third.db"))
        try third.execute("CREATE TABLE c\(Self.last)")
        try third.addMigration(source: new, filter: Self.third)
        func expectFrozen(_ middle: Database) throws {
            #expect(texts(try middle.fetchAll("SELECT * FROM b ORDER BY id")) == whole)
            for sql in [
                "INSERT INTO b(name) VALUES ('z')", "INSERT INTO b(id, name) VALUES (7, 'z')",
                "UPDATE b SET n = 0 WHERE id = 1", "UPDATE b SET n = 0 WHERE id = 9", "UPDATE b SET n = 0",
                "DELETE FROM b WHERE id = 2", "DELETE FROM b WHERE id = 9", "DELETE FROM b",
                "REPLACE INTO b(id, name) VALUES (9, 'z')",
            ] {
                let error = #expect(throws: SQLiteError.self, "\(sql)") { try middle.execute(sql) }
                #expect(error?.code == .constraintTrigger && error?.message.contains("to table c of third.db") == true)
            }
            for sql in ["ALTER TABLE b ADD COLUMN x", "DROP TABLE b"] {
                let error = #expect(throws: MigrationError.self, "\(sql)") { try middle.execute(sql) }
                #expect(error?.code == .refusedStatement)
            }
            let step = try middle.stepMigration(rows: 5)
            #expect(step.outcome == .busy && step.rowsMovedByStep == 0 && !step.isFinished)
            #expect(throws: MigrationError.self) { try middle.cancelMigration(of: ["b"]) }
            try middle.execute("INSERT INTO other VALUES (1)")
            #expect(texts(try middle.fetchAll("SELECT * FROM b ORDER BY id")) == whole)
        }
        try expectFrozen(before)
        while try !third.stepMigration(rows: 1).isFinished {
            guard try objects("new.db").contains(where: { $0.contains("TABLE b") }) else { continue }
            let middle = try Database(path: folder.file("new.db"))
            try middle.addMigration(source: old, filter: Self.second)
            try expectFrozen(middle)
            middle.close()
            #expect(texts(try before.fetchAll("SELECT * FROM b ORDER BY id")) == whole)
        }
        before.close()
        #expect(try MovingFixture.count("c", in: folder.file("third.db")) == 9)
    }

    /// The third file is the source of a fourth, and the tables move all the way at once.
    @Test func aChainMayBeLong() throws {
        _ = try begin(moved: 2)
        let third = try Database(path: folder.file("third.db"))
        try third.execute("CREATE TABLE c\(Self.last)")
        try third.addMigration(source: new, filter: Self.third)
        try third.stepMigration(rows: 1)
        try third.execute("UPDATE c SET m = 'third' WHERE id IN (1, 9)")
        let expected = texts(try third.fetchAll("SELECT * FROM c ORDER BY id"))
        third.close()
        let fourth = try Database(path: folder.file("fourth.db"))
        try fourth.execute("CREATE TABLE d\(Self.last)")
        try fourth.addMigration(source: .file(folder.file("third.db"))) { $0.sourceTable = "c" }
        #expect(try fourth.readMigrationProgress().tables.count == 3)
        #expect(texts(try fourth.fetchAll("SELECT * FROM d ORDER BY id")) == expected)
        try finishMigration(fourth)
        #expect(texts(try fourth.fetchAll("SELECT * FROM d ORDER BY id")) == expected)
        for (file, table) in [("old.db", "a"), ("new.db", "b"), ("third.db", "c")] {
            #expect(try MovingFixture.count(table, in: folder.file(file)) == 0)
            #expect(try objects(file).filter { $0.contains("midstream_state") } == [])
        }
    }

    /// Opens the third file when it has all rows of the first one, and others are still to come.
    private func openThirdWithAllOfTheFirst(_ retirement: SourceRetirement = .drop) throws -> Database {
        _ = try begin(moved: 8)
        let third = try Database(path: folder.file("third.db"))
        try third.execute("CREATE TABLE c\(Self.last)")
        try third.addMigration(source: new, retirement: retirement, filter: Self.third)
        func phase(_ source: String) throws -> MigrationPhase? {
            try third.readMigrationProgress().tables.first { $0.sourceTable == source }?.phase
        }
        for _ in 0..<20 where try phase("a") == .copying { try third.stepMigration(rows: 1) }
        try #require(try phase("a") == .copied && phase("b") == .copying)
        return third
    }

    /// The first source's rows are all there, and those of the second file move on within the third. The first source
    /// must not go before the second, whose own file shows it together with the first one's rows.
    @Test func aSourceStaysWhileTheMiddleOfItsChainIsRead() throws {
        let third = try openThirdWithAllOfTheFirst()
        let middle = try Database(path: folder.file("new.db"))
        let expected = texts(try middle.fetchAll("SELECT * FROM b ORDER BY id"))
        let rows = texts(try third.fetchAll("SELECT * FROM c ORDER BY id"))
        try third.execute("CREATE TABLE d\(Self.last)")
        try third.addMigration(source: .sameDatabase) { if $0.name == "d" { $0.sourceTable = "c" } }
        for _ in 0..<12 {
            #expect(texts(try middle.fetchAll("SELECT * FROM b ORDER BY id")) == expected)
            let another = try Database(path: folder.file("new.db"))
            #expect(texts(try another.fetchAll("SELECT * FROM b ORDER BY id")) == expected)
            another.close()
            #expect(texts(try third.fetchAll("SELECT * FROM d ORDER BY id")) == rows)
            // This asks the first source for all that is wanted of it.
            try third.stepMigration(rows: 1, of: "c")
        }
        #expect(try third.readMigrationProgress().tables.contains { $0.sourceTable == "b" && $0.phase == .copying })
        middle.close()
        try finishMigration(third)
        #expect(texts(try third.fetchAll("SELECT * FROM d ORDER BY id")) == rows)
        for (file, table) in [("old.db", "a"), ("new.db", "b")] {
            #expect(try MovingFixture.count(table, in: folder.file(file)) == 0)
        }
        #expect(try objects("third.db").filter { $0.contains("midstream") } == [])
    }

    /// The fourth file takes over what is still to come from the second. The first source stays the third file's, and
    /// that file's application makes the same calls as ever.
    @Test func whatHasMovedOnTwiceIsSaidAgain() throws {
        let third = try openThirdWithAllOfTheFirst(.keep)
        let rows = texts(try third.fetchAll("SELECT * FROM c ORDER BY id"))
        third.close()
        func sayAgain() throws {
            let middle = try Database(path: folder.file("new.db"))
            defer { middle.close() }
            try middle.addMigration(source: old, filter: Self.second)
        }
        let fourth = try Database(path: folder.file("fourth.db"))
        try fourth.execute("CREATE TABLE d\(Self.last)")
        try fourth.addMigration(source: .file(folder.file("third.db")), retirement: .keep) { $0.sourceTable = "c" }
        for _ in 0..<30 {
            try sayAgain()
            if try fourth.stepMigration(rows: 3).isFinished { break }
        }
        try finishMigration(fourth)
        try sayAgain()
        #expect(texts(try fourth.fetchAll("SELECT * FROM d ORDER BY id")) == rows)
        // The third file has yet to tell the first one that it is done.
        let again = try Database(path: folder.file("third.db"))
        try finishMigration(again)
        try sayAgain()
        #expect(texts(try fourth.fetchAll("SELECT * FROM d ORDER BY id")) == rows)
    }

    /// The middle one of the three tables has itself stayed when its rows went on within the file.
    @Test func whatHasMovedOnWithinItsFileIsSaidAgain() throws {
        let source = try Connection(path: folder.file("old.db"))
        try source.execute(script: "CREATE TABLE a\(Self.columns); INSERT INTO a VALUES \(Self.rows)")
        source.close()
        func say(_ database: Database) throws {
            try database.addMigration(source: old, retirement: .keep, filter: Self.second)
            try database.addMigration(source: .sameDatabase, retirement: .keep) { table in
                if table.name == "later" { table.sourceTable = "b" }
            }
        }
        let middle = try Database(path: folder.file("new.db"))
        try middle.execute("CREATE TABLE b\(Self.columns); CREATE TABLE later\(Self.columns)")
        try say(middle)
        for _ in 0..<5 { try middle.stepMigration(rows: 1) }
        try say(middle)
        middle.close()
        let third = try Database(path: folder.file("third.db"))
        try third.execute("CREATE TABLE c\(Self.columns)")
        try third.addMigration(source: new) { if $0.name == "c" { $0.sourceTable = "later" } }
        for _ in 0..<40 {
            let again = try Database(path: folder.file("new.db"))
            try say(again)
            again.close()
            if try third.stepMigration(rows: 2).isFinished { break }
        }
        try finishMigration(third)
        let again = try Database(path: folder.file("new.db"))
        try say(again)
        #expect(try again.stepMigration().isFinished)
        #expect(try third.fetchValue(Int.self, "SELECT count(*) FROM c") == 9)
    }

    /// A table that cannot go on is refused, and nothing has changed.
    @Test(arguments: ["collision", "shape", "cancelled", "condition", "set aside"])
    func whatCannotMoveOnIsRefused(_ why: String) throws {
        _ = try begin(moved: 3, converts: why == "shape")
        let middle = try Database(path: folder.file("new.db"))
        if why == "cancelled" { try middle.cancelMigration() }
        middle.close()
        if why == "set aside" {
            let other = try Connection(path: folder.file("new.db"))
            try other.execute("UPDATE midstream_tables SET refused_rows_table = 'x'")
            other.close()
        }
        let third = try Database(path: folder.file("third.db"))
        try third.execute("CREATE TABLE c\(Self.last)")
        if why == "collision" { try third.execute("INSERT INTO c(id) VALUES (9)") }
        let before = try ["old.db", "new.db", "third.db"].map(objects)
        let error = #expect(throws: MigrationError.self) {
            try third.addMigration(source: new) { table in
                Self.third(&table)
                if why == "condition" { table.condition = "id < 5" }
            }
        }
        #expect(error?.code == (why == "collision" ? .keyCollision : .unsupported), "\(String(describing: error))")
        #expect(try ["old.db", "new.db", "third.db"].map(objects) == before)
        third.close()
        // The first move can go on.
        guard why != "set aside" else { return }
        let database = try Database(path: folder.file("new.db"))
        try finishMigration(database)
        let count = why == "cancelled" ? 0 : 9
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM b") == count)
    }

    /// The first file's rows belong to the original, not to its copy.
    @Test func aCopyOfTheMiddleFileIsRefusedAndLeftAsItIs() throws {
        _ = try begin(moved: 3)
        Files.copyDatabase(folder.file("new.db"), to: folder.file("copy.db"))
        let third = try Database(path: folder.file("third.db"))
        try third.execute("CREATE TABLE c\(Self.last)")
        let before = try ["old.db", "new.db", "copy.db", "third.db"].map(objects)
        let error = #expect(throws: MigrationError.self) {
            try third.addMigration(source: .file(folder.file("copy.db")), filter: Self.third)
        }
        #expect(error?.code == .foreignState)
        let after = try ["old.db", "new.db", "copy.db", "third.db"].map(objects)
        #expect(after == before)
        try third.addMigration(source: new, filter: Self.third)
        try finishMigration(third)
        #expect(try third.fetchValue(Int.self, "SELECT count(*) FROM c") == 9)
    }

    /// Another move may delete the middle file once all of it has been released, before the last file has seen the
    /// release.
    @Test func theMiddleFileMayBeDeletedWhileTheLastOneWaits() throws {
        _ = try begin(moved: 3)
        let middle = try Connection(path: folder.file("new.db"))
        try middle.execute(script: "DROP TABLE other; CREATE TABLE more(x); INSERT INTO more VALUES (1), (2)")
        let plain = try Connection(path: folder.file("third.db"))
        try plain.execute(script: "CREATE TABLE c\(Self.last)")
        plain.close()
        let database = try openThird()
        try middle.execute("BEGIN")
        _ = try middle.fetchAll("SELECT * FROM more")
        var outcome = MigrationProgress.Outcome.worked
        for _ in 0..<200 where outcome != .waitingForReaders { outcome = try database.stepMigration().outcome }
        #expect(outcome == .waitingForReaders)
        #expect(try database.readMigrationProgress().tables.allSatisfy { $0.phase == .retiring })
        database.close()
        try middle.execute("COMMIT")
        middle.close()
        let fourth = try Database(path: folder.file("fourth.db"))
        try fourth.execute("CREATE TABLE more(x)")
        try fourth.addMigration(source: new, retirement: .deleteFileWhenEmpty) { table in
            if table.name == "more" { table.sourceTable = "more" }
        }
        try finishMigration(fourth)
        #expect(!Files.exists(folder.file("new.db")))
        let again = try Database(path: folder.file("third.db"))
        try finishMigration(again, steps: 200)
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM c") == 9)
        #expect(try !objects("old.db").contains { $0.hasPrefix("table a ") })
    }

    /// The middle file still knows the move that the last file has taken over.
    @Test func aChainComesBackIntoItsMiddleWhenThatIsReleasedAndNotBefore() throws {
        _ = try begin(moved: 0)
        let plain = try Connection(path: folder.file("third.db"))
        try plain.execute(script: "CREATE TABLE c\(Self.last)")
        plain.close()
        let middle = try Database(path: folder.file("new.db"))
        try middle.execute("CREATE TABLE d\(Self.last)")
        let third = try openThird()
        let reader = try Connection(path: folder.file("third.db"))
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT * FROM c")
        try third.stepMigration(rows: 4)
        for _ in 0..<20 { try third.stepMigration(rows: 0) }
        func comeBack() throws {
            try middle.addMigration(source: .file(folder.file("third.db"))) { table in
                if table.name == "d" { table.sourceTable = "c" }
            }
        }
        let before = try ["old.db", "new.db", "third.db"].map(objects)
        let error = #expect(throws: MigrationError.self) { try comeBack() }
        #expect(error?.code == .unsupported, "\(String(describing: error))")
        #expect(try ["old.db", "new.db", "third.db"].map(objects) == before)
        try reader.execute("COMMIT")
        try finishMigration(third)
        try comeBack()
        try finishMigration(middle)
        #expect(try middle.fetchValue(Int.self, "SELECT count(*) FROM d") == 9)
    }

    /// The calls are repeated at each launch, as all such calls are.
    @Test(arguments: [SourceRetirement.keep, .drop], [true, false])
    func aChainMayComeBackIntoAnotherTableOfItsMiddle(_ retirement: SourceRetirement, _ isFinished: Bool) throws {
        _ = try begin(moved: 0)
        let plain = try Connection(path: folder.file("third.db"))
        try plain.execute(script: "CREATE TABLE c\(Self.last)")
        plain.close()
        func sayAll() throws -> [Database] {
            let middle = try Database(path: folder.file("new.db"))
            try middle.addMigration(source: old, filter: Self.second)
            let third = try Database(path: folder.file("third.db"))
            try third.addMigration(source: new, retirement: retirement, filter: Self.third)
            return [middle, third]
        }
        let databases = try sayAll()
        // These are all rows of the middle file, and a part of those that are still to come from the first.
        try databases[1].stepMigration(rows: 4)
        for _ in 0..<20 { try databases[1].stepMigration(rows: 0) }
        if isFinished { try finishMigration(databases[1]) }
        for database in databases { database.close() }
        func comeBack(_ middle: Database) throws {
            try middle.addMigration(source: .file(folder.file("third.db"))) { table in
                if table.name == "d" { table.sourceTable = "c" }
            }
        }
        var middle = try Database(path: folder.file("new.db"))
        try middle.execute("CREATE TABLE d\(Self.last)")
        try comeBack(middle)
        try middle.stepMigration(rows: 2)
        middle.close()
        for _ in 0..<2 {
            let again = try sayAll()
            try comeBack(again[0])
            #expect(try again[0].fetchValue(Int.self, "SELECT count(*) FROM d") == 9)
            for database in again { database.close() }
            middle = try Database(path: folder.file("new.db"))
            try finishMigration(middle)
            middle.close()
        }
    }

    /// The expression names columns of the middle table. Columns of the first table have the same names, but other
    /// values.
    @Test(arguments: ["messages", "a"], [0, 1] as [Int64])
    func anExpressionMayNameTheTableInTheMiddle(_ name: String, _ moved: Int64) throws {
        let first = try Connection(path: folder.file("old.db"))
        try first.execute(
            script:
                "CREATE TABLE \(name)(id INTEGER PRIMARY KEY, name, title); INSERT INTO \(name) VALUES (1, 'N', 'T'), (2, 'M', 'U')"
        )
        first.close()
        let middle = try Database(path: folder.file("new.db"))
        try middle.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, title)")
        try middle.addMigration(source: old) { table in
            table.sourceTable = name
            table.columns["title"] = .column("name")
            table.unmatchedColumns = .ignored
        }
        try middle.stepMigration(rows: moved)
        middle.close()
        let last = try Database(path: folder.file("third.db"))
        try last.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, title, slug)")
        try last.addMigration(source: new) { table in
            table.sourceTable = "messages"
            table.columns["slug"] = .expression("lower(messages.title)")
        }
        let all = "SELECT * FROM messages ORDER BY id"
        #expect(texts(try last.fetchAll(all)) == ["1|N|n", "2|M|m"])
        try finishMigration(last)
        #expect(texts(try last.fetchAll(all)) == ["1|N|n", "2|M|m"])
    }

    /// The middle table has no column of that name.
    @Test func aRowIDOfTheMiddleIsNoColumnOfThatNameInTheFirst() throws {
        let first = try Connection(path: folder.file("old.db"))
        try first.execute(
            script: "CREATE TABLE a(x, rowid); INSERT INTO a(_rowid_, x, rowid) VALUES (1, 'one', 70), (2, 'two', 80)"
        )
        first.close()
        let middle = try Database(path: folder.file("new.db"))
        try middle.execute("CREATE TABLE b(x)")
        try middle.addMigration(source: old) { table in
            table.sourceTable = "a"
            table.unmatchedColumns = .ignored
        }
        middle.close()
        let last = try Database(path: folder.file("third.db"))
        try last.execute("CREATE TABLE c(x, n)")
        do {
            try last.addMigration(source: new) { table in
                table.sourceTable = "b"
                table.columns["n"] = .column("rowid")
            }
            #expect(texts(try last.fetchAll("SELECT * FROM c ORDER BY x")) == ["one|1", "two|2"])
        } catch let error as MigrationError {
            #expect(error.code == .unsupported)
        }
    }
}
