import SQLiteConnection
import Testing

@Suite struct SQLTests {
    private let folder = TestFolder()
    /// Older libraries cannot set `last_insert_rowid()` back after a row has been moved.
    private static let lastRowID = Connection.libraryVersionNumber >= 3_018_000 ? "last_insert_rowid()" : "0"

    /// Runs a script while tables move, and beside it with the sqlite3 shell, which does not know our dot lines.
    private func compare(_ script: String, _ schema: String) throws {
        let old = try folder.database("old.db", schema)
        try folder.database("plain.db", schema)
        let own = try BuiltTool.run("sql", folder.file("new.db"), "--source", old, "--all-tables", input: script)
        let lines = script.split(separator: "\n").filter { !$0.hasPrefix(".") }.joined(separator: "\n")
        guard let shell = try? Subprocess.run("sqlite3", [folder.file("plain.db")], input: lines) else {
            print("sqlite3 is not installed, so its output is not compared")
            return
        }
        #expect(own.output == shell.output)
        #expect(own.status == shell.status)
        let errors = own.error.split(separator: "\n").count { $0.hasPrefix("Error: near line") }
        #expect(errors == shell.error.split(separator: "\n").count { $0.contains(" near line ") }, "\(own.error)")
    }

    @Test func aScriptGivesWhatTheShellGivesHoweverFarTheTableIs() throws {
        try compare(
            """
            SELECT count(*), sum(id), min(body) FROM messages;
            .step rows 300
            UPDATE messages SET sender = 'x' WHERE id IN (5, 900);
            SELECT changes(); SELECT * FROM messages WHERE sender = 'x' ORDER BY id;
            INSERT INTO messages(sender, body) VALUES ('new', 'body 800');
            .step rows 100
            BEGIN;
            INSERT INTO messages(sender, body) VALUES ('new', 'hello');
            SAVEPOINT s;
            DELETE FROM messages;
            SELECT count(*) FROM messages;
            ROLLBACK TO s;
            COMMIT;
            SELECT \(Self.lastRowID), count(*) FROM messages;
            .step
            CREATE TEMP TABLE t AS SELECT * FROM messages WHERE id > 995;
            SELECT * FROM t ORDER BY id;
            .drain
            SELECT count(*), sum(id) FROM messages;
            """,
            messages(1000)
        )
    }

    @Test func eachStatementIsOneLineOfJSON() throws {
        let script = """
            SELECT 1 AS a, 1.5, NULL, 'x"y', x'00ff';
            CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE);
            INSERT INTO t VALUES (1, 'one'),
              (2, 'two');
            SELECT * FROM t WHERE a > 5;
            INSERT INTO t(b) VALUES ('two');
            SELECT a FROM t ORDER BY a
            """
        let result = try BuiltTool.run("sql", folder.file("a.db"), "--json", input: script)
        #expect(
            result.output == #"""
                {"sql":"SELECT 1 AS a, 1.5, NULL, 'x\"y', x'00ff'","columns":["a","1.5","NULL","'x\"y'","x'00ff'"],"rows":[[1,1.5,null,"x\"y",{"blob":"00ff"}]],"changes":0,"lastInsertRowid":0}
                {"sql":"CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)","columns":[],"rows":[],"changes":0,"lastInsertRowid":0}
                {"sql":"INSERT INTO t VALUES (1, 'one'),\n  (2, 'two')","columns":[],"rows":[],"changes":2,"lastInsertRowid":2}
                {"sql":"SELECT * FROM t WHERE a > 5","columns":["a","b"],"rows":[],"changes":2,"lastInsertRowid":2}
                {"sql":"INSERT INTO t(b) VALUES ('two')","error":{"code":19,"extendedCode":2067,"message":"UNIQUE constraint failed: t.b"}}
                {"sql":"SELECT a FROM t ORDER BY a","columns":["a"],"rows":[[1],[2]],"changes":0,"lastInsertRowid":2}

                """#
        )
        #expect(result.error.isEmpty)
        #expect(result.status == 1)
    }

    @Test func withBailTheFirstErrorEndsTheScript() throws {
        let script = "SELECT 1; SELECT missing; SELECT 2;"
        #expect(try BuiltTool.run("sql", folder.file("a.db"), input: script).output == "1\n2\n")
        let bailed = try BuiltTool.run("sql", folder.file("a.db"), "--bail", input: script)
        #expect(bailed.output == "1\n")
        #expect(bailed.error == "Error: near line 1: no such column: missing\n")
        #expect(bailed.status == 1)
    }

    @Test func whatIsNotUTF8IsAnErrorAndWritesNothing() throws {
        let path = try folder.database("a.db", "CREATE TABLE t(x)")
        func run(_ script: String, _ command: String) throws -> Subprocess.Result {
            try Subprocess.run("/bin/sh", ["-c", "printf '\(script)' | \"$1\" \(command)", "sh", BuiltTool.path, path])
        }
        let result = try run("INSERT INTO t VALUES (1);\\nINSERT INTO t VALUES (\\047\\377\\047);\\n", "sql \"$2\"")
        #expect(result.status == 1)
        #expect(result.error.hasPrefix("Error: near line 2: the text is not valid UTF-8"), "\(result.error)")
        #expect(try folder.value("a.db", "SELECT group_concat(x) FROM t") == .text("1"))
        let upgrade = try run(
            "CREATE TABLE t(x);\\nCREATE TABLE u(x DEFAULT \\047\\377\\047);",
            "upgrade \"$2\" --schema -"
        )
        #expect(upgrade.status == 1)
        #expect(upgrade.error.contains("error: standard input:2:27: the text"), "\(upgrade.error)")
        #expect(try folder.value("a.db", "SELECT count(*) FROM sqlite_master") == .integer(1))
    }

    /// The output goes to a full device, or to a reader that has gone, with the signal for that ignored or not.
    @Test(arguments: [("> /dev/full", "", 1), ("", "", 141), ("", "trap '' PIPE;", 141)])
    func outputThatIsLostIsNoSuccess(_ redirection: String, _ trap: String, _ status: Int32) throws {
        #if os(Linux)
            let path = try folder.database("a.db", "CREATE TABLE t(x)")
            let script = "\(trap) { sleep 0.2; \"$1\" sql \"$2\" \"$3\" \(redirection); echo \"status $?\" >&2; } | :"
            try Subprocess.write("SELECT 1;", to: folder.file("a.sql"))
            let result = try Subprocess.run(
                "/bin/sh",
                ["-c", script, "sh", BuiltTool.path, path, folder.file("a.sql")]
            )
            let message = "midstream: error: cannot write the output: No space left on device\n"
            #expect(result.error == (status == 1 ? message : "") + "status \(status)\n", "\(result.error)")
        #endif
    }

    @Test func stepsMoveSoManyRowsAndNoneInsideATransaction() throws {
        let old = try folder.database("old.db", messages(1000))
        let new = folder.file("new.db")
        let script = """
            .status
            .step rows 300
            BEGIN;
            .step rows 300
            .status
            COMMIT;
            .nothing
            .help
            .quit
            SELECT 'not reached';
            """
        let result = try BuiltTool.run("sql", new, "--source", old, "--table", "messages", "--json", input: script)
        let lines = result.output.split(separator: "\n")
        #expect(result.status == 1)
        #expect(lines.count == 9)
        #expect(lines[0].contains(#""moved":0,"pending":1000"#))
        #expect(lines[1].hasPrefix(#"{"step":{"moved":300,"#) && lines[1].contains(#""pending":700"#))
        #expect(lines[3].hasPrefix(#"{"command":".step rows 300","error":{"#))
        #expect(lines[4].hasPrefix(#"{"status":{"#) && lines[4].contains(#""pending":700"#))
        #expect(lines[6].contains("unknown command .nothing"))
        #expect(lines[7].hasPrefix(#"{"help":{"#))
        let reindexed = try BuiltTool.run("sql", new, "--json", input: "SELECT 1 AS a; REINDEX;")
        #expect(reindexed.output.contains(#"{"sql":"REINDEX","columns":[],"rows":[]"#))
        // The remaining rows go on moving without the command's naming the source.
        let status = try BuiltTool.run("status", new)
        #expect(status.status == 0)
        #expect(status.output.contains("messages: copying, 300 rows moved, 700 pending (30.0 %), from \(old)"))
        let drained = try BuiltTool.run("sql", new, "--json", input: ".drain\n.status\n")
        #expect(drained.output.contains(#"{"drain":{"moved":700,"outcome":"worked","finished":true,"tables":[]}}"#))
        #expect(try folder.value("new.db", "SELECT count(*) FROM messages") == .integer(1000))
    }

    @Test func theScriptMayBeAFile() throws {
        try Subprocess.write("SELECT 7;", to: folder.file("a.sql"))
        #expect(try BuiltTool.run("sql", folder.file("a.db"), folder.file("a.sql")).output == "7\n")
        let missing = try BuiltTool.run("sql", folder.file("b.db"), folder.file("none.sql"))
        #expect(missing.status == 1)
        #expect(missing.error.contains("none.sql: No such file or directory"))
    }

    @Test func theArgumentMayBeSQLAsTheShellTakesIt() throws {
        let schema = "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)"
        let path = try folder.database("a.db", schema)
        let plain = try folder.database("plain.db", schema)
        for sql in [
            "SELECT 1", "select count(*) from t", "SELECT x FROM t ORDER BY x; SELECT 'a.b/c'; -- no more",
            "UPDATE t SET x = x + 1; SELECT sum(x) FROM t", "VACUUM", "SELECT missing", "\nSELECT\n1;\n",
        ] {
            let own = try BuiltTool.run("sql", path, sql)
            guard let shell = try? Subprocess.run("sqlite3", [plain, sql]) else {
                print("sqlite3 is not installed, so its output is not compared")
                break
            }
            // The shell's exit status is SQLite's code for the error.
            let isAlike = own.output == shell.output && (own.status == 0) == (shell.status == 0)
            #expect(isAlike, "\(sql): \(own.error)")
        }
        #expect(try BuiltTool.run("sql", path, ".help").output.contains(".drain"))
        #expect(try BuiltTool.run("sql", path, "--json", "SELECT 1 AS a").output.contains(#""rows":[[1]]"#))
        let error = try BuiltTool.run("sql", path, "SELECT 1;\nSELECT missing")
        #expect(error.error == "Error: near line 2: no such column: missing\n")
        // If there is a file of that name, even one with a space, the argument means the file's script.
        try Subprocess.write("SELECT 7;", to: folder.file("select 1"))
        #expect(try BuiltTool.run("sql", path, folder.file("select 1")).output == "7\n")
        #expect(try BuiltTool.run("sql", path, "-", input: "SELECT 8;").output == "8\n")
    }

    @Test(arguments: [("?", "?"), ("?3", "?3"), (":a", ":a"), ("@a", "@a"), ("$a", "$a")])
    func aParameterIsAnError(parameter: String, name: String) throws {
        let path = try folder.database("a.db", "CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        let script =
            "UPDATE t SET x = '?:@$'; UPDATE t SET x = \(parameter); SELECT x FROM t; EXPLAIN SELECT \(parameter);"
        let result = try BuiltTool.run("sql", path, input: script)
        #expect(
            result.error == "Error: near line 1: parameter \(name) has no value, since a script has none to give: "
                + "write the value in its place\n"
        )
        #expect(result.status == 1)
        #expect(result.output.hasPrefix("?:@$\n0|Init|"))
    }

    @Test func aDirectoryIsSaidToBeOne() throws {
        let path = folder.file("some.db")
        _ = try Subprocess.run("mkdir", [path])
        for arguments in [
            ["status", path], ["sql", path, "SELECT 1"], ["upgrade", path, "--schema", "-"],
            ["cancel", path],
        ] {
            let result = try Subprocess.run(BuiltTool.path, arguments, input: "CREATE TABLE t(x);")
            #expect(result.error == "midstream: error: \(path) is a directory: name a database file\n", "\(arguments)")
            #expect(result.status == 1)
        }
    }

    @Test func anOpenTransactionIsRolledBackAtTheEnd() throws {
        let path = try folder.database("a.db", "CREATE TABLE t(x)")
        #expect(try BuiltTool.run("sql", path, input: "BEGIN; INSERT INTO t VALUES (1);").status == 0)
        #expect(try folder.value("a.db", "SELECT count(*) FROM t") == .integer(0))
    }

    /// The name of the file may be misspelt.
    @Test func aFileThatIsNotThereIsNotMadeByReadingIt() throws {
        let result = try BuiltTool.run("sql", folder.file("new.db"), "SELECT 1")
        #expect(result.status == 0 && result.output == "1\n", "\(result.error)")
        #expect(folder.names.isEmpty)
        for sql in ["PRAGMA user_version = 4", "CREATE TABLE t(a)"] {
            #expect(try BuiltTool.run("sql", folder.file("new.db"), sql).status == 0)
        }
        #expect(try folder.value("new.db", "PRAGMA user_version") == .integer(4))
    }

    @Test func aPlainFileIsLeftAsItIs() throws {
        let path = try folder.database("a.db", "CREATE TABLE t(x)")
        #expect(try BuiltTool.run("status", path).output == "\(path) has no migrations\n")
        #expect(
            try BuiltTool.run("status", path, "--json").output
                == "{\"target\":\"\(path)\",\"finished\":true,\"tables\":[]}\n"
        )
        #expect(try BuiltTool.run("sql", path, input: "PRAGMA journal_mode;").output == "delete\n")
        #expect(try folder.value("a.db", "PRAGMA journal_mode") == .text("delete"))
        #expect(try BuiltTool.run("status", folder.file("none.db")).status == 1)
    }

    /// On a connection that writes, the query would need all rows in one place.
    @Test func aQueryOfASnippetMovesNoRow() throws {
        let old = try folder.database(
            "old.db",
            """
            CREATE TABLE docs(id INTEGER PRIMARY KEY, a);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
            INSERT INTO docs SELECT i, 'word' || i FROM n;
            """
        )
        let new = try folder.database(
            "new.db",
            """
            CREATE TABLE docs(id INTEGER PRIMARY KEY, a); CREATE VIRTUAL TABLE f USING fts4(a, content=docs);
            INSERT INTO f(docid, a) VALUES (2000, 'word2000'), (3, 'word3');
            """
        )
        let query = "SELECT snippet(f, '[', ']') FROM f WHERE f MATCH 'word2000';\n"
        let result = try BuiltTool.run(
            "sql",
            new,
            "--source",
            old,
            "--table",
            "docs",
            input: ".step rows 500\n\(query).status\nCREATE TABLE own(a);\n\(query)CREATE TEMP TABLE f(a, b);\n\(query)"
        )
        // The last query is about another table.
        #expect(result.status == 1, "\(result.error)")
        let lines = result.output.split(separator: "\n")
        #expect(lines.filter { $0 == "[word2000]" }.count == 2, "\(result.output)")
        #expect(result.output.contains("copying, 500 rows moved, 2,500 pending"), "\(result.output)")
    }
}
