import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Keys of the files on which the tool works.
@Suite(.enabled(if: Connection.canEncrypt)) struct KeyTests {
    private let folder = TestFolder()
    private static let (sourceText, targetText) = ("Source-Needle 7c1", "Target-Needle é 9f3")
    private let source = EncryptionKey.passphrase(Self.sourceText)
    private let target = EncryptionKey.passphrase(Self.targetText)
    private let environment = ["MIDSTREAM_SOURCE": Self.sourceText, "MIDSTREAM_TARGET": Self.targetText]

    /// Makes a file with a key, and a newline after the key.
    private func keyFile(_ name: String, _ text: String) throws -> String {
        try Subprocess.write(text, to: folder.file(name))
        return folder.file(name)
    }

    private func run(_ arguments: String..., input: String = "", started: (pid_t) -> Void = { _ in }) throws
        -> Subprocess.Result
    {
        let result = try Subprocess.run(
            BuiltTool.path,
            arguments,
            input: input,
            environment: environment,
            started: started
        )
        for text in [result.output, result.error] { #expect(!text.contains("Needle"), "\(text)") }
        return result
    }

    // MARK: Where keys come from

    @Test func keysComeFromFilesAndFromTheEnvironment() throws {
        let old = try folder.database("old.db", messages(500), key: source)
        let new = folder.file("new.db")
        let sourceKey = try keyFile("key", Self.sourceText + "\n")
        let script = ".step rows 100\nSELECT count(*), sum(id) FROM messages;\n.status\n"
        let begun = try run(
            "sql",
            new,
            "--source",
            old,
            "--all-tables",
            "--source-key-file",
            sourceKey,
            "--target-key-env",
            "MIDSTREAM_TARGET",
            input: script
        )
        #expect(begun.status == 0, "\(begun.error)")
        #expect(begun.output.hasPrefix("500|125250\n"))
        #expect(begun.output.contains("100 rows moved, 400 pending"))
        #expect(!TestFolder.text(ofFile: new).hasPrefix("SQLite"))

        let status = try run("status", new, "--target-key-env=MIDSTREAM_TARGET", "--json")
        #expect(status.output.contains(#""moved":100,"pending":400,"total":500"#), "\(status.error)")

        // The second command relies on what the target has stored.
        let missing = try run("migrate", new, "--target-key-env", "MIDSTREAM_TARGET")
        #expect(missing.status == 1)
        #expect(missing.error.contains("give its key, by --source-key-file, --source-key-env or --source-key-ask\n"))
        let moved = try run(
            "migrate",
            new,
            "--target-key-env",
            "MIDSTREAM_TARGET",
            "--source-key-env",
            "MIDSTREAM_SOURCE"
        )
        #expect(moved.status == 0, "\(moved.error)")
        #expect(moved.output.contains("messages: all 500 rows moved"))
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages", key: target) == .integer(500))
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages", key: source) == .integer(0))
    }

    @Test func oneNewlineIsNotTheKeysAndARawKeyIsAKey() throws {
        for (text, key) in [
            ("two\n\n", EncryptionKey.passphrase("two\n")), ("none", .passphrase("none")),
            ("x'\(String(repeating: "5a", count: 32))'\n", .raw([UInt8](repeating: 0x5a, count: 32))),
        ] {
            let folder = TestFolder()
            try folder.database("a.db", "CREATE TABLE t(x); INSERT INTO t VALUES (7)", key: key)
            let result = try run(
                "sql",
                folder.file("a.db"),
                "--target-key-file",
                try keyFile("key", text),
                input: "SELECT x FROM t;"
            )
            #expect(result.output == "7\n", "\(result.error)")
        }
    }

    @Test func aKeyThatIsNotThereIsToldBeforeAnythingIsDone() throws {
        let old = try folder.database("old.db", messages(10))
        let (new, empty) = (folder.file("new.db"), try keyFile("empty", "\n"))
        let before = folder.names
        for (options, wanted) in [
            (
                ["--target-key-file", folder.file("Needle")],
                "the file of --target-key-file cannot be read: No such file"
            ),
            (["--target-key-file", folder.path], "the file of --target-key-file cannot be read: Is a directory"),
            (["--target-key-file", empty], "the file of --target-key-file is empty"),
            (
                ["--target-key-env", "Needle"],
                "the environment variable that --target-key-env names does not exist"
            ),
            (["--target-key-env", "MIDSTREAM_EMPTY"], "the environment variable of --target-key-env is empty"),
            (
                ["--target-key-ask"],
                "--target-key-ask asks on the terminal, and there is none: give --target-key-file or"
            ),
        ] {
            for command in [
                ["encrypt", old, new], ["sql", new], ["status", old],
                ["migrate", "--source", old, new, "--all-tables"],
            ] {
                let result = try Subprocess.run(
                    BuiltTool.path,
                    command + options,
                    environment: ["MIDSTREAM_EMPTY": ""]
                )
                #expect(result.status == 1)
                #expect(result.error.hasPrefix("midstream: error: " + wanted), "\(result.error)")
                #expect(!result.error.contains("Needle"))
            }
        }
        #expect(folder.names == before)
        #expect(
            try folder.value("old.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'midstream%'") == .integer(0)
        )
    }

    @Test func aKeyThatDoesNotFitIsToldAndNothingElse() throws {
        let old = try folder.database("old.db", messages(10), key: source)
        let new = folder.file("new.db")
        let misfit =
            "midstream: error: \(old): the key or the settings of the cipher do not fit the file, or it is no database\n"
        let plain = try folder.database("plain.db", messages(10))
        for (arguments, wanted) in [
            (["decrypt", old, new, "--source-key-env", "MIDSTREAM_TARGET"], misfit),
            (["status", old, "--target-key-env", "MIDSTREAM_TARGET"], misfit),
            (["status", old, "--target-key-env=MIDSTREAM_SOURCE", "--target-cipher=page-size=512"], misfit),
            (
                ["migrate", "--source", old, new, "--all-tables", "--source-key-env=MIDSTREAM_TARGET"],
                misfit
            ),
            (
                ["migrate", "--source", old, new, "--all-tables"],
                "midstream: error: \(old): the file is encrypted, or is no database: give its key\n"
            ),
            (
                ["decrypt", plain, new, "--source-key-env", "MIDSTREAM_SOURCE"],
                "midstream: error: \(plain): the file is not encrypted, and a key was given: open it without one\n"
            ),
        ] {
            let result = try Subprocess.run(BuiltTool.path, arguments, environment: environment)
            #expect(result.status == 1)
            // This is the whole error output: the library's own lines are silenced.
            #expect(result.error == wanted)
        }
        #expect(!folder.exists("new.db"))
    }

    // MARK: Whole files

    private static let schema =
        messages(3000) + """
            CREATE TABLE people(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT);
            INSERT INTO people(name) VALUES ('Ann'), ('Bo'); DELETE FROM people WHERE name = 'Bo';
            CREATE VIEW v AS SELECT * FROM people; PRAGMA user_version = 7;
            CREATE TRIGGER t AFTER INSERT ON people BEGIN DELETE FROM messages WHERE id = new.id; END;
            """

    @Test func aFileIsEncryptedInSpiteOfAnInterruptionAndDecryptedAgain() throws {
        let old = try folder.database("old.db", Self.schema)
        let (new, plain) = (folder.file("new.db"), folder.file("plain.db"))
        let dump = try folder.dump("old.db")
        var process = (arguments: "", environment: "")
        let first = try run(
            "encrypt",
            old,
            new,
            "--target-key-env",
            "MIDSTREAM_TARGET",
            "--pace",
            "gentle",
            "--budget",
            "1ms",
            "--json"
        ) { pid in
            // A process that fails never reaches this phase.
            for _ in 0..<3000 {
                let phase = try? folder.value("new.db", "SELECT max(phase) FROM midstream_tables", key: target)
                if phase == .integer(1) { break }
                usleep(10_000)
            }
            process.arguments = TestFolder.text(ofFile: "/proc/\(pid)/cmdline")
            process.environment = TestFolder.text(ofFile: "/proc/\(pid)/environ")
            kill(pid, SIGINT)
        }
        #expect(first.status == 130, "\(first.error)")
        #expect(first.output.contains(#""finished":false,"interrupted":true"#))
        #if os(Linux)
            #expect(process.arguments.contains("MIDSTREAM_TARGET"))
            #expect(!process.arguments.contains("Needle"))
            #expect(!process.environment.contains("Target-Needle"))
        #endif
        let second = try run("encrypt", old, new, "--target-key-env", "MIDSTREAM_TARGET")
        #expect(second.status == 0, "\(second.error)")
        #expect(second.output.contains("messages: all 3,000 rows moved"))
        #expect(
            second.output.hasSuffix("\(old) still has all rows: delete it, or run the command again with --wipe.\n")
        )
        #expect(try folder.dump("new.db", key: target) == dump)
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(3000))
        for name in ["new.db", "new.db-wal"] {
            #expect(!TestFolder.text(ofFile: folder.file(name)).contains("body 1"))
        }
        for name in folder.names { #expect(!TestFolder.text(ofFile: folder.file(name)).contains("Needle"), "\(name)") }

        let third = try run("decrypt", new, plain, "--source-key-env", "MIDSTREAM_TARGET", "--json")
        #expect(third.status == 0, "\(third.error)")
        #expect(third.output.contains(#""sourceWiped":false"#))
        #expect(try folder.dump("plain.db") == dump)
    }

    /// The source must not be deleted then.
    @Test(arguments: [true, false]) func whatIsNotInTheTargetIsNamed(_ isAnother: Bool) throws {
        let old = try folder.database("old.db", Self.schema)
        let made = isAnother ? try folder.database("other.db", "CREATE TABLE something(x)") : old
        let arguments = [folder.file("new.db"), "--target-key-env", "MIDSTREAM_TARGET"]
        let first = try Subprocess.run(BuiltTool.path, ["encrypt", made] + arguments, environment: environment)
        #expect(first.status == 0, "\(first.error)")
        if !isAnother {
            let connection = try Connection(path: old)
            try connection.execute(script: "CREATE TABLE later(x); INSERT INTO later VALUES (1);")
            connection.close()
        }
        let second = try Subprocess.run(BuiltTool.path, ["encrypt", old] + arguments, environment: environment)
        #expect(second.status == 1)
        #expect(!second.output.contains("delete it"))
        #expect(second.error.contains(isAnother ? "messages" : "later"), "\(second.error)")
    }

    /// The source has no rows, so nothing could move.
    @Test func aSourceIsNotWipedForAFileThatWasNotMadeOfIt() throws {
        let old = try folder.database(
            "old.db",
            "CREATE TABLE t(x); CREATE VIEW v AS SELECT x FROM t; PRAGMA user_version = 17;"
        )
        let new = try folder.database("new.db", "CREATE TABLE u(x)", key: target)
        let before = try folder.dump("old.db")
        let refused = try run("encrypt", old, new, "--wipe", "--target-key-env", "MIDSTREAM_TARGET")
        #expect(refused.status == 1 && refused.output.isEmpty)
        for name in ["table t", "view v", "PRAGMA user_version"] {
            #expect(refused.error.contains(name), "\(refused.error)")
        }
        #expect(try folder.dump("old.db") == before)
    }

    @Test func whatIsGivenUpIsWiped() throws {
        let old = try folder.database("old.db", Self.schema)
        var arguments = ["encrypt", old, folder.file("new.db"), "--target-key-env", "MIDSTREAM_TARGET", "--wipe"]
        let first = try Subprocess.run(BuiltTool.path, Array(arguments.dropLast()), environment: environment)
        #expect(first.status == 0, "\(first.error)")
        _ = try folder.value("old.db", "CREATE VIEW later AS SELECT 1")
        _ = try folder.value("old.db", "CREATE TABLE last(a)")
        let other = try Subprocess.run(BuiltTool.path, arguments + ["--give-up", "later"], environment: environment)
        #expect(other.status == 1 && other.error.contains("table last"), "\(other.error)")
        arguments += ["--give-up", "last"]
        let refused = try Subprocess.run(BuiltTool.path, arguments, environment: environment)
        #expect(refused.status == 1 && refused.error.contains("view later"), "\(refused.error)")
        let given = try Subprocess.run(BuiltTool.path, arguments + ["--give-up", "later"], environment: environment)
        #expect(given.status == 0, "\(given.error)")
        #expect(folder.names == ["new.db"])
    }

    @Test func whatHasMovedIsWipedWhenThatIsWanted() throws {
        let old = try folder.database("old.db", Self.schema)
        let dump = try folder.dump("old.db")
        let arguments = ["encrypt", old, folder.file("new.db"), "--target-key-env", "MIDSTREAM_TARGET"]
        let kept = try Subprocess.run(BuiltTool.path, arguments, environment: environment)
        #expect(kept.status == 0, "\(kept.error)")
        // This connection still has the source open.
        let reader = try Connection(path: old)
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT * FROM people")
        let refused = try Subprocess.run(BuiltTool.path, arguments + ["--wipe"], environment: environment)
        #expect(refused.status == 1)
        #expect(refused.output.contains("still has all rows"))
        #expect(refused.error.contains("\(old): database is locked"), "\(refused.error)")
        try reader.execute("COMMIT")
        reader.close()

        let wiped = try Subprocess.run(BuiltTool.path, arguments + ["--wipe", "--json"], environment: environment)
        #expect(wiped.status == 0, "\(wiped.error)")
        #expect(wiped.output.contains(#""sourceWiped":true"#))
        #expect(folder.names == ["new.db"])
        #expect(try folder.dump("new.db", key: target) == dump)
        // The command runs again, without a source.
        let again = try Subprocess.run(BuiltTool.path, arguments + ["--wipe"], environment: environment)
        #expect(again.status == 0, "\(again.error)")
        #expect(again.output == "There is nothing to move.\n")
    }

    @Test func anEncryptedFileGetsAnotherKeyOrAnotherCipher() throws {
        let old = try folder.database("old.db", Self.schema, key: source)
        let dump = try folder.dump("old.db", key: source)
        let result = try run(
            "encrypt",
            old,
            folder.file("new.db"),
            "--source-key-env",
            "MIDSTREAM_SOURCE",
            "--target-key-env",
            "MIDSTREAM_TARGET",
            "--wipe"
        )
        #expect(result.status == 0, "\(result.error)")
        #expect(result.output.hasSuffix("\(old) has been overwritten and deleted.\n"))
        #expect(try folder.dump("new.db", key: target) == dump)
        // One variable has the key of both files.
        let cheaper = try run(
            "encrypt",
            folder.file("new.db"),
            folder.file("other.db"),
            "--source-key-env",
            "MIDSTREAM_TARGET",
            "--target-key-env",
            "MIDSTREAM_TARGET",
            "--target-cipher",
            "kdf-iterations=10,page-size=4096"
        )
        #expect(cheaper.status == 0, "\(cheaper.error)")
        var settings = CipherSettings()
        settings.kdfIterations = 10
        settings.pageSize = 4096
        #expect(try folder.dump("other.db", key: .passphrase(Self.targetText, settings: settings)) == dump)
    }

    @Test func aWholeFileMovesIntoAnotherOne() throws {
        let old = try folder.database("old.db", Self.schema)
        let same = try run("encrypt", old, old, "--target-key-env", "MIDSTREAM_TARGET")
        #expect(same.status == 1)
        #expect(same.error.contains("source and target are one file"))
        let none = try run(
            "encrypt",
            folder.file("none.db"),
            folder.file("new.db"),
            "--target-key-env",
            "MIDSTREAM_TARGET"
        )
        #expect(none.status == 1)
        #expect(none.error.contains("there is neither"))
        #expect(folder.names == ["old.db"])
    }

    // MARK: The terminal

    #if os(Linux)
        @Test func aKeyIsAskedForWithoutBeingShown() throws {
            let old = try folder.database("old.db", messages(20), key: source)
            let terminal = try PseudoTerminal(
                BuiltTool.path,
                ["encrypt", old, folder.file("new.db"), "--source-key-ask", "--target-key-ask"]
            )
            for (prompt, answer) in [
                ("Key of the source: ", Self.sourceText), ("Key of the target: ", Self.targetText),
                ("The same key again: ", Self.targetText),
            ] {
                #expect(terminal.waitFor(prompt))
                #expect(!terminal.echoes)
                terminal.type(answer + "\n")
            }
            #expect(terminal.end() == 0)
            #expect(terminal.echoes)
            #expect(terminal.shown.contains("messages: all 20 rows moved"))
            #expect(!terminal.shown.contains("Needle"))
            #expect(try folder.value("new.db", "SELECT count(*) FROM messages", key: target) == .integer(20))
        }

        @Test func aNewKeyThatIsMistypedIsRefused() throws {
            let old = try folder.database("old.db", messages(20))
            let terminal = try PseudoTerminal(
                BuiltTool.path,
                ["encrypt", old, folder.file("new.db"), "--target-key-ask"]
            )
            #expect(terminal.waitFor("Key of the target: "))
            terminal.type(Self.targetText + "\n")
            #expect(terminal.waitFor("The same key again: "))
            terminal.type(Self.sourceText + "\n")
            #expect(terminal.end() == 1)
            #expect(terminal.shown.contains("the two keys differ: nothing has been done"))
            #expect(folder.names == ["old.db"])
        }

        @Test(arguments: [SIGINT, SIGTERM]) func aSignalWhileAskingLeavesTheTerminalAsItWas(_ signal: Int32) throws {
            let old = try folder.database("old.db", messages(20), key: source)
            let terminal = try PseudoTerminal(BuiltTool.path, ["status", old, "--target-key-ask"])
            #expect(terminal.waitFor("Key of the target: "))
            #expect(!terminal.echoes)
            // The terminal itself turns Ctrl-C into a signal.
            if signal == SIGINT { terminal.type("Nee\u{3}") } else { terminal.send(signal) }
            #expect(terminal.end() == 128 + signal)
            #expect(terminal.echoes)
            #expect(!terminal.shown.contains("Nee"))
        }

        /// A shell without job control begins a program in the background in this way.
        @Test func anIgnoredSignalIsNoAnswerAndKeepsNoOtherFromEndingIt() throws {
            let old = try folder.database("old.db", messages(20), key: source)
            let ignoring = "trap '' INT; exec \"$@\""
            let terminal = try PseudoTerminal(
                "/bin/sh",
                ["-c", ignoring, "sh", BuiltTool.path, "status", old, "--target-key-ask"]
            )
            #expect(terminal.waitFor("Key of the target: "))
            terminal.type("\u{3}")
            #expect(terminal.waitFor("Key of the target: \r\nKey of the target: "))
            terminal.send(SIGTERM)
            #expect(terminal.end() == 128 + SIGTERM)
            #expect(terminal.echoes)
        }
    #endif
}
