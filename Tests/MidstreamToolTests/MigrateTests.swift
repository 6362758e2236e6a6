import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

@Suite struct MigrateTests {
    private let folder = TestFolder()

    @Test func tablesMoveWithTheirIndexesAndLeaveNothingBehind() throws {
        let old = try folder.database(
            "old.db",
            messages(3000) + "CREATE TABLE people(name TEXT); INSERT INTO people VALUES ('Ann');"
        )
        let result = try BuiltTool.run("migrate", "--source", old, folder.file("new.db"), "--all-tables")
        #expect(result.status == 0, "\(result.error)")
        #expect(result.output.contains("messages: all 3,000 rows moved"))
        #expect(result.output.contains("Moved 3,001 rows of 2 tables"))
        #expect(try folder.value("new.db", "SELECT count(*) || ' ' || sum(id) FROM messages") == .text("3000 4501500"))
        #expect(
            try folder.value("new.db", "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master ORDER BY 1)")
                == .text("messages,messages_by_sender,people,sqlite_autoindex_messages_1")
        )
        #expect(
            try folder.value("old.db", "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'messages'")
                == .integer(0)
        )
        let again = try BuiltTool.run("migrate", "--source=\(old)", folder.file("new.db"), "--all-tables")
        #expect(again.status == 0)
        #expect(again.output == "There is nothing to move.\n")
    }

    /// A table moves on to a third file before all its rows have come into the second. The second file then has nothing
    /// more to do.
    @Test func aTableMovesOnToAThirdFile() throws {
        let old = try folder.database("old.db", messages(3000))
        let (new, third) = (folder.file("new.db"), folder.file("third.db"))
        #expect(try BuiltTool.run("sql", new, "--source", old, "--all-tables", input: ".step rows 700\n").status == 0)
        let all = try BuiltTool.run("sql", third, "--source", new, "--all-tables", input: ".step rows 700\n")
        #expect(all.status == 1 && all.error.contains("still moving themselves"), "\(all.error)")
        #expect(!folder.exists("third.db"))
        let arguments = ["--source", new, "--table", "messages"]
        #expect(try Subprocess.run(BuiltTool.path, ["sql", third] + arguments, input: ".step rows 700\n").status == 0)
        let status = try BuiltTool.run("status", new)
        #expect(status.output.contains("copying, 700 rows moved, 2,300 pending"), "\(status.output)")
        #expect(status.output.contains("moving on to table messages of third.db"))
        let refused = try BuiltTool.run("migrate", "--source", old, new, "--all-tables")
        #expect(refused.status == 1)
        #expect(refused.error.contains("table messages moves on to table messages of third.db"), "\(refused.error)")
        let result = try Subprocess.run(BuiltTool.path, ["migrate", third] + arguments)
        #expect(result.status == 0, "\(result.error)")
        #expect(
            try folder.value("third.db", "SELECT count(*) || ' ' || sum(id) FROM messages") == .text("3000 4501500")
        )
        #expect(try BuiltTool.run("status", new).output.contains("has no migrations"))
    }

    /// If foreign keys are enforced, SQLite would refuse every write of the table.
    @Test func aKeyToATableThatStaysIsWaivedByName() throws {
        let old = try folder.database(
            "old.db",
            "CREATE TABLE users(id INTEGER PRIMARY KEY); CREATE TABLE notes(id INTEGER PRIMARY KEY, u REFERENCES users(id)); "
                + "INSERT INTO users VALUES (1); INSERT INTO notes VALUES (1, 1), (2, 1);"
        )
        let arguments = ["--source", old, "--table", "notes"]
        let refused = try Subprocess.run(BuiltTool.path, ["migrate", folder.file("new.db")] + arguments)
        #expect(refused.status == 1)
        #expect(refused.error.contains("name users with --waive-key"), "\(refused.error)")
        let waived = ["migrate", folder.file("new.db")] + arguments + ["--waive-key", "users"]
        let result = try Subprocess.run(BuiltTool.path, waived)
        #expect(result.status == 0, "\(result.error)")
        #expect(try folder.value("new.db", "SELECT count(*) FROM notes") == .integer(2))
    }

    @Test func columnsAreMapped() throws {
        let old = try folder.database(
            "old.db",
            "CREATE TABLE s(id INTEGER PRIMARY KEY, a TEXT, b TEXT, c); INSERT INTO s VALUES (1, 'x', 'y', 0), (2, 'z', NULL, 0);"
        )
        try folder.database("new.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, ab TEXT, n INTEGER DEFAULT 7)")
        let arguments = ["migrate", "--source", old, folder.file("new.db"), "--table", "t=s"]
        let refused = try Subprocess.run(BuiltTool.path, arguments + ["--map", "t.ab=a || b"])
        #expect(refused.status == 1)
        #expect(refused.error.contains("the source lacks n; the target lacks c"), "\(refused.error)")
        let wrong = try Subprocess.run(BuiltTool.path, arguments + ["--map", "u.ab=a"])
        #expect(wrong.status == 1 && wrong.error.contains("--map names table u"))
        #expect(try Subprocess.run(BuiltTool.path, arguments + ["--map", "ab"]).status == 64)
        let result = try Subprocess.run(
            BuiltTool.path,
            arguments + ["--map", "t.ab=coalesce(a || b, 'no = b')", "--ignore-unmatched"]
        )
        #expect(result.status == 0, "\(result.error)")
        #expect(
            try folder.value("new.db", "SELECT group_concat(id || ab || n) FROM t") == .text("1xy7,2no = b7")
        )
    }

    @Test func aTableMovesUnderAnotherNameAndByACondition() throws {
        let old = try folder.database(
            "old.db",
            "CREATE TABLE \"old tree\"(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES \"old tree\"(id), n, CHECK (\"old tree\".n > 0));"
                + "CREATE INDEX n ON \"old tree\"(n); INSERT INTO \"old tree\" VALUES (1, NULL, 5), (2, 1, 6), (3, 1, 7);"
        )
        try folder.database("new.db", "CREATE TABLE n(x)")
        let result = try BuiltTool.run(
            "migrate",
            "--source",
            old,
            folder.file("new.db"),
            "--table",
            "tree=old tree",
            "--where",
            "n < 7",
            "--json"
        )
        #expect(result.status == 0, "\(result.error)")
        #expect(result.output.contains(#""finished":true"#))
        #expect(result.output.contains(#""sourceKept":"1 of its rows belongs to no migration""#))
        #expect(try folder.value("new.db", "SELECT group_concat(id) FROM tree") == .text("1,2"))
        #expect(try folder.value("new.db", "PRAGMA foreign_key_list('tree')", column: "table") == .text("tree"))
        #expect(try folder.value("new.db", "PRAGMA index_list('tree')", column: "name") == .text("tree_n"))
        #expect(try folder.value("old.db", "SELECT count(*) FROM \"old tree\"") == .integer(3))
    }

    @Test func aTableMovesInsideOneFile() throws {
        let path = try folder.database("one.db", messages(500, table: "old_messages"))
        let result = try BuiltTool.run(
            "migrate",
            "--source",
            path,
            path,
            "--table",
            "messages=old_messages"
        )
        #expect(result.status == 0, "\(result.error)")
        #expect(try folder.value("one.db", "SELECT count(*) FROM messages") == .integer(500))
        #expect(
            try folder.value("one.db", "SELECT count(*) FROM sqlite_master WHERE name = 'old_messages'") == .integer(0)
        )
        let all = try BuiltTool.run("migrate", "--source", path, path, "--all-tables")
        #expect(all.status == 1)
        #expect(all.error.contains("--table TARGET=SOURCE"))
    }

    /// The moved rows fire the target's triggers or do not, as the command says. The command must say so before
    /// anything moves.
    @Test func triggersForInsertAreAskedAbout() throws {
        let old = try folder.database("old.db", messages(30))
        let new = folder.file("new.db")
        let made =
            messages(1)
            + "DELETE FROM messages; CREATE TABLE log(id); CREATE TRIGGER noted AFTER INSERT ON messages BEGIN "
            + "INSERT INTO log VALUES (NEW.id); END;"
        try folder.database("new.db", made)
        let before = try [folder.dump("old.db"), folder.dump("new.db")]
        let arguments = ["migrate", new, "--source", old, "--table", "messages"]
        let refused = try Subprocess.run(BuiltTool.path, arguments)
        #expect(refused.status == 1)
        for words in ["(noted)", "--fire-triggers", "--no-fire-triggers", "Nothing has been changed"] {
            #expect(refused.error.contains(words), "\(refused.error)")
        }
        #expect(!refused.error.contains("firesTriggers"))
        #expect(try [folder.dump("old.db"), folder.dump("new.db")] == before)
        #expect(try Subprocess.run(BuiltTool.path, arguments + ["--fire-triggers", "--no-fire-triggers"]).status == 64)
        let result = try Subprocess.run(BuiltTool.path, arguments + ["--fire-triggers"])
        #expect(result.status == 0, "\(result.error)")
        #expect(try folder.value("new.db", "SELECT count(*) FROM log") == .integer(30))
        try folder.database("other.db", made)
        let third = ["migrate", folder.file("other.db"), "--source", new, "--table", "messages"]
        #expect(try Subprocess.run(BuiltTool.path, third + ["--no-fire-triggers"]).status == 0)
        #expect(try folder.value("other.db", "SELECT count(*) FROM messages") == .integer(30))
        #expect(try folder.value("other.db", "SELECT count(*) FROM log") == .integer(0))
    }

    @Test func aKeptSourceStays() throws {
        let old = try folder.database("old.db", messages(10))
        let result = try BuiltTool.run(
            "migrate",
            "--source",
            old,
            folder.file("new.db"),
            "--table",
            "messages",
            "--keep-source"
        )
        #expect(result.status == 0, "\(result.error)")
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(10))
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages") == .integer(10))
    }

    /// Begins a migration and interrupts it.
    private func beginMigration(_ old: String, _ new: String) throws {
        // The steps take 1 ms each 2 s, so the migration cannot have ended when the signal comes.
        let result = try BuiltTool.run(
            "migrate",
            "--source",
            old,
            new,
            "--all-tables",
            "--pace",
            "gentle",
            "--budget",
            "1ms",
            "--json"
        ) { pid in
            // A process that fails never reaches this phase.
            for _ in 0..<3000 {
                if access(new, F_OK) == 0,
                    (try? folder.value("new.db", "SELECT phase FROM midstream_tables")) == .integer(1)
                {
                    break
                }
                usleep(10_000)
            }
            kill(pid, SIGINT)
        }
        #expect(result.status == 130, "\(result.error)")
        #expect(result.output.contains(#""interrupted":true"#))
    }

    @Test func anInterruptedMigrationGoesOnLater() throws {
        let old = try folder.database("old.db", messages(5000))
        let new = folder.file("new.db")
        try beginMigration(old, new)
        let status = try BuiltTool.run("status", new, "--json")
        #expect(status.output.contains(#""finished":false"#))
        #expect(
            try BuiltTool.run("sql", new, input: "SELECT count(*), sum(id) FROM messages;").output == "5000|12502500\n"
        )
        let resumed = try BuiltTool.run("migrate", new)
        #expect(resumed.status == 0, "\(resumed.error)")
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages") == .integer(5000))
        #expect(try BuiltTool.run("status", new).output == "\(new) has no migrations\n")
    }

    /// The error has the keys beside the damage. The status names the table of the rows that were left out.
    @Test func keysThatCannotBeReadAreTold() throws {
        let old = try folder.database(
            "old.db",
            """
            PRAGMA page_size = 1024; CREATE TABLE t(k TEXT PRIMARY KEY, text) WITHOUT ROWID;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                INSERT INTO t SELECT printf('k%05d', i), hex(zeroblob(20)) FROM n;
            """
        )
        let new = folder.file("new.db")
        #expect(try BuiltTool.run("sql", new, "--source", old, "--all-tables", input: ".step rows 500\n").status == 0)
        _ = try folder.value("old.db", "PRAGMA wal_checkpoint(TRUNCATE)")
        try damageLeaf(of: "k01000", in: old)
        let stopped = try BuiltTool.run("migrate", new)
        #expect(stopped.status == 1)
        #expect(
            stopped.error.contains(": keys after ('k009") && stopped.error.contains(" and before ('k010"),
            "\(stopped.error)"
        )
        #expect(!(try BuiltTool.run("status", new)).output.contains("unreadable"))
        _ = try folder.value("new.db", "UPDATE midstream_tables SET unreadable_rows = 1")
        #expect(try BuiltTool.run("sql", new, input: ".step rows 900\n.step rows 300\n").status == 0)
        let status = try BuiltTool.run("status", new).output
        #expect(status.contains("without unreadable rows: see table midstream_unreadable_t"), "\(status)")
        #expect(
            try BuiltTool.run("status", new, "--json").output.contains(
                #""unreadableRowsTable":"midstream_unreadable_t""#
            )
        )
        let moved = try BuiltTool.run("migrate", new)
        #expect(
            moved.status == 0 && moved.output.contains("source table t stays: rows of it cannot be read"),
            "\(moved)"
        )
    }

    /// Overwrites the page of a table without rowids that has a text.
    private func damageLeaf(of text: String, in path: String) throws {
        let file = open(path, O_RDWR)
        defer { close(file) }
        var page = [UInt8](repeating: 0, count: 1024)
        var number = 0
        while pread(file, &page, page.count, off_t(number * page.count)) == page.count {
            let isFound = page.indices.contains { page[$0...].starts(with: text.utf8) }
            if page[0] == 0x0a, isFound {
                let garbage = [UInt8](repeating: 0xff, count: page.count)
                #expect(pwrite(file, garbage, garbage.count, off_t(number * page.count)) == garbage.count)
                return
            }
            number += 1
        }
        Issue.record("no page has \(text)")
    }

    @Test func aCancelledMigrationBringsTheRowsBack() throws {
        let old = try folder.database("old.db", messages(5000))
        let new = folder.file("new.db")
        #expect(try BuiltTool.run("cancel", new).error.contains("there is no file"))
        try beginMigration(old, new)
        _ = try BuiltTool.run("sql", new, input: "UPDATE messages SET sender = 'changed' WHERE id IN (1, 5000);")
        let unknown = try BuiltTool.run("cancel", new, "--table", "nothing")
        #expect(unknown.status == 1 && unknown.error.contains("table nothing does not move"))
        let result = try BuiltTool.run("cancel", new)
        #expect(result.status == 0, "\(result.error)")
        #expect(result.output.contains("messages: all rows are back in table messages of \(old)"), "\(result.output)")
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages") == .integer(0))
        #expect(
            try folder.value("old.db", "SELECT count(*) || ' ' || sum(sender = 'changed') FROM messages")
                == .text("5000 2")
        )
        #expect(try BuiltTool.run("cancel", new, "--json").output.contains(#""rows":0"#))
    }

    @Test func aSourceWhoseTargetIsLostIsReleased() throws {
        let old = try folder.database("old.db", messages(5000))
        let new = folder.file("new.db")
        #expect(try BuiltTool.run("release", old).output == "There is nothing to release.\n")
        #expect(try BuiltTool.run("release", new).error.contains("there is no file"))
        try beginMigration(old, new)
        let there = try BuiltTool.run("release", old)
        #expect(there.status == 1 && there.error.contains("midstream cancel"), "\(there.error)")
        for suffix in ["", "-wal", "-shm"] { unlink(new + suffix) }
        let next = try BuiltTool.run("migrate", "--source", old, folder.file("next.db"), "--table", "messages")
        #expect(next.status == 1 && next.error.contains("midstream release"), "\(next.error)")
        #expect(try BuiltTool.run("release", old).output == "messages: may be written again\n")
        #expect(try BuiltTool.run("release", old, "--json").output == "{\"released\":[]}\n")
        let again = try BuiltTool.run("migrate", "--source", old, folder.file("next.db"), "--table", "messages")
        #expect(again.status == 0, "\(again.error)")
        #expect(try folder.value("next.db", "SELECT count(*) FROM messages") == .integer(5000))
    }

    /// The other tables go on moving, or are on their own way back.
    @Test func onlyTheTablesThatAreNamedReturn() throws {
        let old = try folder.database(
            "old.db",
            messages(5000) + messages(3000, table: "people") + messages(2000, table: "rooms")
        )
        let new = folder.file("new.db")
        #expect(try BuiltTool.run("sql", new, "--source", old, "--all-tables", input: ".step rows 700\n").status == 0)
        let database = try Database(path: new)
        try database.cancelMigration(of: ["rooms"])
        database.close()
        let result = try BuiltTool.run("cancel", new, "--table", "Messages")
        #expect(result.status == 0, "\(result.error)")
        let line = "messages: all rows are back in table messages of \(old)\n"
        #expect(result.output == line + "Brought 700 rows back.\n")
        let status = try BuiltTool.run("status", new).output
        #expect(status.contains("people: copying, 700 rows moved"), "\(status)")
        #expect(status.contains("rooms: returning, 700 rows moved"), "\(status)")
    }

    /// Another process ends a migration between two steps of this one, by moving all rows or by a cancellation.
    @Test(arguments: [false, true], [false, true])
    func howAnotherProcessHasEndedAMoveIsTold(_ isSameFile: Bool, _ isCancelled: Bool) throws {
        let new = folder.file("new.db")
        let old = try folder.database(isSameFile ? "new.db" : "old.db", messages(5000, table: "old_messages"))
        let result = try BuiltTool.run(
            "migrate",
            "--source=\(old)",
            new,
            "--table=messages=old_messages",
            "--pace=gentle",
            "--budget=1ms"
        ) { _ in
            for _ in 0..<3000 {
                let phase = try? folder.value("new.db", "SELECT phase FROM midstream_tables WHERE total IS NOT NULL")
                if phase == .integer(1) { break }
                usleep(10_000)
            }
            guard let database = try? Database(path: new) else { return }
            if isCancelled { #expect(throws: Never.self) { try database.cancelMigration() } }
            while let progress = try? database.stepMigration(), !progress.isFinished {}
            database.close()
        }
        if isCancelled {
            #expect(result.status == 1 && result.error.contains("was cancelled"), "\(result.output) \(result.error)")
        } else {
            #expect(
                result.status == 0 && result.output.contains("all 5,000 rows moved"),
                "\(result.output) \(result.error)"
            )
        }
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages") == .integer(isCancelled ? 0 : 5000))
    }

    /// A process has died while it began the migration, and the source does not exist any more.
    @Test func aTableThatCannotBeginEndsTheCommand() throws {
        let old = try folder.database("old.db", messages(100))
        let new = folder.file("new.db")
        #expect(try BuiltTool.run("sql", new, "--source", old, "--all-tables", input: "SELECT 1;").status == 0)
        _ = try folder.value("new.db", "UPDATE midstream_tables SET phase = 0")
        // A table that has yet to begin has no guard triggers.
        let guards = "SELECT group_concat('DROP TRIGGER ' || name, '; ') FROM sqlite_master WHERE type = 'trigger'"
        if case .text(let drops)? = try folder.value("new.db", guards) {
            try Connection(path: new).execute(script: drops)
        }
        rename(old, old + "-aside")
        for (arguments, input) in [(["migrate", new], ""), (["sql", new], ".drain\n")] {
            let result = try Subprocess.run(BuiltTool.path, arguments, input: input) { Subprocess.end($0, after: 20) }
            #expect(result.status == 1, "\(result.error)")
            #expect(result.error.contains("there is no such file"), "\(result.error)")
        }
    }

    /// Two sources in different files have tables of the same name.
    @Test func whichSourceStaysIsTold() throws {
        let new = try folder.database("new.db", "CREATE TABLE a(x); CREATE TABLE b(x)")
        let database = try Database(path: new)
        for (name, condition) in [("a", "x < 2"), ("b", nil)] {
            let old = try folder.database(name + ".db", "CREATE TABLE s(x); INSERT INTO s VALUES (1), (2);")
            try database.addMigration(source: .file(old)) { table in
                guard table.name == name else { return }
                table.sourceTable = "s"
                table.condition = condition
            }
        }
        database.close()
        let result = try BuiltTool.run("migrate", new)
        #expect(result.status == 0, "\(result.error)")
        #expect(
            result.output.contains("a: all 1 row moved; source table s stays: 1 of its rows belongs to no migration\n")
        )
        #expect(result.output.contains("b: all 2 rows moved\n"), "\(result.output)")
    }

    /// In the end the target has none of the rows, so they must not be called moved.
    @Test func whatIsOnItsWayBackIsNotMoved() throws {
        let old = try folder.database("old.db", messages(5000))
        let new = folder.file("new.db")
        try beginMigration(old, new)
        let database = try Database(path: new)
        try database.execute("UPDATE messages SET sender = 'changed' WHERE id > 4000")
        try database.cancelMigration()
        try database.stepMigration(rows: 10)
        database.close()
        func again() throws -> Subprocess.Result {
            try BuiltTool.run("migrate", "--source", old, new, "--table", "messages")
        }
        for result in [try again(), try BuiltTool.run("migrate", new)] {
            #expect(result.status == 1 && result.error.contains("is being moved back"), "\(result.error)")
        }
        #expect(try BuiltTool.run("cancel", new).status == 0)
        #expect(try again().status == 0)
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages") == .integer(5000))
    }

    // MARK: Bad input

    @Test func whatCannotBeginSaysWhyAndChangesNothing() throws {
        let old = try folder.database("old.db", messages(10) + "CREATE TABLE b(x); INSERT INTO b VALUES (1);")
        let new = try folder.database("new.db", "CREATE TABLE b(x, y)")
        try Subprocess.write("this is no database, but a text that is long enough", to: folder.file("text.db"))
        let noDatabase = "the file is encrypted, or is no database"
        let cases: [(arguments: [String], message: String)] = [
            (["--source", folder.file("none.db"), new, "--all-tables"], "there is no source file"),
            (["--source", old, new, "--table", "nothing"], "there is no table nothing"),
            (["--source", old, new, "--table", "messages", "--table", "b"], "the source lacks y"),
            (
                ["--source", old, new, "--table", "messages", "--where", "nothing = 1"],
                "does not fit source table"
            ),
            (["--source", old, folder.file("text.db"), "--all-tables"], "text.db: \(noDatabase)"),
            (["--source", folder.file("text.db"), new, "--all-tables"], "text.db: \(noDatabase)"),
            (
                ["--source", old, folder.file("missing/new.db"), "--all-tables"],
                "unable to open database file"
            ),
            ([folder.file("none.db")], "there is no file"),
            ([new], "has no migration to go on with"),
            (["--source", old, new, "--table", "a=b", "--table", "A=messages"], "is named twice"),
        ]
        for (arguments, wanted) in cases {
            let result = try Subprocess.run(BuiltTool.path, ["migrate"] + arguments)
            #expect(result.status == 1, "\(arguments)")
            #expect(result.output.isEmpty)
            #expect(result.error.hasPrefix("midstream: error: "), "\(result.error)")
            #expect(result.error.contains(wanted), "\(result.error)")
            #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(10))
            #expect(
                try folder.value("old.db", "SELECT group_concat(name) FROM sqlite_master WHERE type <> 'index'")
                    == .text("messages,b")
            )
            #expect(try folder.value("new.db", "SELECT group_concat(name) FROM sqlite_master") == .text("b"))
        }
        #expect(access(folder.file("none.db"), F_OK) != 0)
    }

    @Test(arguments: [["--table", "w"], ["--table", "m=messages", "--where", "nothing = 1"], ["--table", "nothing"]])
    func aMigrationThatIsRefusedLeavesNoNewFile(_ tables: [String]) throws {
        let old = try folder.database("old.db", messages(10) + "CREATE TABLE w(rowid, oid, _rowid_);")
        let result = try Subprocess.run(
            BuiltTool.path,
            ["migrate", folder.file("new.db"), "--source", old] + tables
        )
        #expect(result.status == 1)
        #expect(folder.names == ["old.db"], "\(result.error)")
        // A file that was there before stays, whatever it contains.
        try folder.database("new.db", "CREATE TABLE x(y); DROP TABLE x;")
        _ = try Subprocess.run(BuiltTool.path, ["migrate", folder.file("new.db"), "--source", old] + tables)
        #expect(folder.exists("new.db"))
    }

    @Test func aTargetInAFolderThatCannotBeWrittenIsRefused() throws {
        let old = try folder.database("old.db", messages(10))
        let locked = folder.file("locked")
        mkdir(locked, 0o555)
        // For root, only the folders of the kernel are closed.
        let target = geteuid() == 0 ? "/proc/new.db" : locked + "/new.db"
        let result = try BuiltTool.run("migrate", "--source", old, target, "--all-tables")
        #expect(result.status == 1)
        #expect(result.error.contains("unable to open database file"))
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(10))
    }

    @Test func usageErrorsExitWith64AndAHint() throws {
        let cases: [[String]] = [
            ["migrate"], ["migrate", "a", "--wrong=secret"], ["migrate", "a", "--source", "b"],
            ["sql"], ["status", "a", "secret"], ["encrypt", "secret"], ["decrypt", "a", "b"],
            ["encrypt", "a", "b", "--source-key-env", "secret"], ["encrypt", "--target-key", "secret", "a", "b"],
            ["encrypt", "a", "b", "--target-key-env=x", "--pace=secret"], ["status", "a", "--source-key-env=secret"],
            ["migrate", "a", "--target-key-env=secret", "--target-key-ask"],
            ["sql", "a", "--target-key-file="],
            ["migrate", "a", "--target-cipher=compatibility=3"],
            ["status", "a", "--target-key-env=x", "--target-cipher=secret"],
            ["sql", "a", "--source-key-ask", "--source-cipher=salt=secret"], ["nothing"], ["--nothing"],
            ["demo", "--rows", "secret"],
        ]
        for arguments in cases {
            let result = try Subprocess.run(BuiltTool.path, arguments)
            #expect(result.status == 64, "\(arguments)")
            #expect(result.output.isEmpty)
            #expect(result.error.hasPrefix("midstream: error: "))
            #expect(result.error.contains("--help' for more information"))
            #expect(!result.error.contains("secret"))
        }
    }

    @Test func helpAndVersionAreForStandardOutput() throws {
        for arguments in [
            [], ["--help"], ["-h"], ["help"], ["help", "sql"], ["migrate", "--help"], ["status", "-h"],
            ["demo", "--help"], ["encrypt", "--help"], ["help", "decrypt"],
        ] {
            let result = try Subprocess.run(BuiltTool.path, arguments)
            #expect(result.status == 0, "\(arguments)")
            #expect(result.output.hasPrefix("OVERVIEW: "))
            #expect(result.error.isEmpty)
        }
        #expect(try BuiltTool.run("--version").output.contains("."))
    }

    @Test func aTableThatWasKeptIsNotDroppedLater() throws {
        let old = try folder.database("old.db", messages(20))
        let new = folder.file("new.db")
        let move = ["migrate", new, "--source", old, "--table", "messages"]
        #expect(try Subprocess.run(BuiltTool.path, move + ["--keep-source"]).status == 0)
        _ = try folder.value("new.db", "DROP TABLE messages")
        let again = try Subprocess.run(BuiltTool.path, move)
        #expect(again.output == "There is nothing to move.\n")
        #expect(again.error.hasPrefix("The rows of messages moved into table messages before, which has been dropped"))
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(20))
        #expect(try folder.value("new.db", "SELECT count(*) FROM sqlite_master") == .integer(0))
    }

    @Test(arguments: ["end", "keep", "cancel", "half"]) func noLogOfTheSourceIsLeftBehind(_ how: String) throws {
        let old = try folder.database("old.db", messages(3000))
        let new = folder.file("new.db")
        if how == "cancel" || how == "half" {
            try beginMigration(old, new)
            if how == "cancel" { #expect(try BuiltTool.run("cancel", new).status == 0) }
        } else {
            let more = how == "keep" ? ["--keep-source"] : []
            let result = try Subprocess.run(
                BuiltTool.path,
                ["migrate", new, "--source", old, "--table", "messages"] + more
            )
            #expect(result.status == 0)
        }
        for end in ["-wal", "-shm"] {
            #expect(access(old + end, F_OK) != 0 && access(new + end, F_OK) != 0, "\(end)")
        }
    }
}
