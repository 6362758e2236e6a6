import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// `midstream upgrade`.
@Suite struct UpgradeTests {
    private let folder = TestFolder()

    private func script(_ sql: String) throws -> String {
        let path = folder.file("new.sql")
        let file = try #require(fopen(path, "w"))
        fputs(sql, file)
        fclose(file)
        return path
    }

    private func tool(_ arguments: [String]) throws -> Subprocess.Result {
        try Subprocess.run(BuiltTool.path, arguments)
    }

    private static let newest = """
        CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT NOT NULL, text TEXT UNIQUE);
        CREATE INDEX messages_by_sender ON messages(sender);
        CREATE TABLE people(name TEXT);
        """

    @Test func aFileIsBroughtToTheSchemaOfAScript() throws {
        let path = try folder.database("app.db", messages(2500) + "CREATE TABLE other(a);")
        let schema = try script(Self.newest)
        let arguments = ["upgrade", path, "--schema", schema, "--rename", "messages.body=text"]
        let before = try folder.dump("app.db")
        let plan = try tool(arguments + ["--plan"])
        #expect(plan.status == 0, "\(plan.error)")
        // If SQLite cannot rename columns, this is one change.
        #expect(plan.output.contains("since column body is called text"))
        #expect(
            plan.output.contains("messages: rebuild, since column") && plan.output.contains("column sender is NOT NULL")
        )
        #expect(plan.output.contains("people: create\n    CREATE TABLE people(name TEXT)"))
        #expect(plan.output.contains("not declared, and stays: other"))
        #expect(try folder.dump("app.db") == before)
        let result = try tool(arguments)
        #expect(result.status == 0, "\(result.error)")
        #expect(result.output.contains("Moved 2,500 rows of 1 table"))
        #expect(
            try folder.value("app.db", "SELECT count(*) || text FROM messages WHERE text = 'body 7'")
                == .text("1body 7")
        )
        #expect(
            try folder.value("app.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'midstream%'") == .integer(0)
        )
        let again = try tool(arguments + ["--json"])
        #expect(
            again.output
                == "{\"plan\":{\"changes\":[],\"undeclared\":[\"other\"],\"movedAway\":[],\"rebuilt\":[],\"unfilled\":[]}}\n"
        )
        let dropping = try tool(arguments + ["--allow-drop"])
        #expect(dropping.output.contains("other: drop"))
        #expect(try folder.value("app.db", "SELECT count(*) FROM sqlite_master WHERE name = 'other'") == .integer(0))
    }

    /// Another process reads and writes the new shape while rows move, and an interrupted upgrade goes on later.
    @Test func othersUseTheFileMeanwhile() throws {
        let path = try folder.database("app.db", messages(2500))
        let arguments = ["upgrade", path, "--schema", try script(Self.newest), "--rename", "messages.body=text"]
        let moved = "SELECT count(*) FROM messages"
        var answer = ""
        var arrived: SQLiteValue?
        let paced = arguments + ["--pace", "gentle", "--budget", "1ms"]
        let result = try Subprocess.run(BuiltTool.path, paced) { pid in
            // A process that fails never reaches this phase.
            for _ in 0..<3000 {
                if (try? folder.value("app.db", "SELECT phase FROM midstream_tables")) == .integer(1) { break }
                usleep(10_000)
            }
            let statements = "UPDATE messages SET text = 'mine' WHERE id = 2499; "
            let question = "SELECT count(*), sum(text = 'mine') FROM messages;"
            answer = (try? BuiltTool.run("sql", path, input: statements + question).output) ?? ""
            arrived = try? folder.value("app.db", moved)
            kill(pid, SIGINT)
        }
        #expect(result.status == 130, "\(result.error)")
        #expect(answer == "2500|1\n")
        // Without Midstream, only the rows that have moved are seen.
        guard case .integer(let count)? = arrived else { return #expect(arrived != nil) }
        #expect(count < 2500)
        let resumed = try BuiltTool.run("migrate", path)
        #expect(resumed.status == 0, "\(resumed.error)")
        #expect(try folder.value("app.db", moved) == .integer(2500))
        #expect(try folder.value("app.db", "SELECT text FROM messages WHERE id = 2499") == .text("mine"))
    }

    @Test func howRowsComeIsToldBeforeAndAfter() throws {
        let path = try folder.database("app.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2);")
        let arguments = ["upgrade", path, "--schema", try script("CREATE TABLE t(a NOT NULL)")]
        let told = """
            t: rebuild, since column a is NOT NULL
                CREATE TABLE t(a NOT NULL)
                rows with NULL in a do not fit, unless the column is made of something else
                its rows are copied in the transaction

            """
        let mode = "PRAGMA journal_mode"
        #expect(try tool(arguments + ["--plan"]).output == told)
        #expect(try folder.value("app.db", mode) == .text("delete"))
        #expect(try tool(arguments).output == told)
        // Other processes need this mode while rows move.
        #expect(try folder.value("app.db", mode) == .text("wal"))
        let json = ["upgrade", path, "--json", "--schema", try script("CREATE TABLE t(a TEXT)")]
        for arguments in [json + ["--plan"], json] {
            let output = try tool(arguments).output
            #expect(output.contains("\"rebuilt\":[{\"name\":\"t\",\"way\":\"atOnce\"}]"), "\(output)")
        }
    }

    @Test func columnsAreMapped() throws {
        let path = try folder.database("app.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1), (NULL);")
        let arguments = ["upgrade", path, "--schema", try script("CREATE TABLE t(a NOT NULL, b NOT NULL)")]
        let refused = try tool(arguments)
        #expect(refused.status == 1)
        #expect(refused.error.contains("column b of table t is new, NOT NULL and without default: say by --map what"))
        let result = try tool(arguments + ["--map", "t.a=coalesce(a, 'no = a')", "--map", "t.b=coalesce(a, 0) + 1"])
        #expect(result.status == 0, "\(result.error)")
        #expect(result.output.contains("    b is made of coalesce(a, 0) + 1\n"))
        #expect(
            try folder.value("app.db", "SELECT group_concat(a || ' ' || b) FROM t") == .text("1 2,no = a 1")
        )
        #expect(try BuiltTool.run("upgrade", path, "--schema", "x", "--map", "a=1").status == 64)
    }

    /// No mapping is left out without a word. Otherwise the column would be empty in the end, and the right command
    /// would find nothing to do.
    @Test(arguments: [
        ("t.c=a || lsat", "--map makes column c of table t of column lsat, which the table does not have"),
        ("t.c=\"nosuch\"", "--map makes column c of table t of column nosuch, which the table does not have"),
        ("t.d=b", "--map makes column d of table t of column b, which the table does not have"),
        ("t.a=a + 1", "--map has a mapping for column a of table t, but the column is already as declared"),
        ("u.x=1", "--map has a mapping for column x of table u, but table u is newly created"),
        ("t.e=1", "the schema does not declare that column"),
    ])
    func aMappingIsAppliedOrRefused(_ mapping: String, _ message: String) throws {
        let path = try folder.database("app.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1);")
        let schema = try script("CREATE TABLE t(a, c TEXT, d NOT NULL DEFAULT 0); CREATE TABLE u(x);")
        let before = try folder.dump("app.db")
        for option in [["--plan"], ["--json"], ["--allow-drop"], []] {
            let result = try tool(["upgrade", path, "--schema", schema, "--map", mapping] + option)
            #expect(result.status == 1 && result.output.isEmpty)
            #expect(result.error.contains(message), "\(result.error)")
        }
        #expect(try folder.dump("app.db") == before)
        let right = try tool(["upgrade", path, "--schema", schema, "--map", "t.c=a || 'x'"])
        #expect(right.status == 0, "\(right.error)")
        #expect(try folder.value("app.db", "SELECT c FROM t") == .text("1x"))
        // The command that has brought the file to this schema may be given again at each deployment.
        let again = try tool(["upgrade", path, "--schema", schema, "--map", "t.c=a || 'x'"])
        #expect(again.status == 0, "\(again.error)")
        #expect(try folder.value("app.db", "SELECT c FROM t") == .text("1x"))
    }

    /// While rows move, the same command goes on with the upgrade.
    @Test func aMappingThatHasBegunMayBeSaidOnceMore() throws {
        let path = try folder.database("app.db", messages(2500) + "CREATE TABLE t(a); INSERT INTO t VALUES (1);")
        let schema = try script(
            "CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT, body TEXT, n INT NOT NULL); CREATE TABLE t(a, b)"
        )
        let arguments = ["upgrade", path, "--schema", schema, "--map", "messages.n=id + 1", "--map", "t.b=a + 1"]
        let paced = arguments + ["--pace", "gentle", "--budget", "1ms"]
        let stopped = try Subprocess.run(BuiltTool.path, paced) { pid in
            for _ in 0..<3000 {
                if (try? folder.value("app.db", "SELECT phase FROM midstream_tables")) == .integer(1) { break }
                usleep(10_000)
            }
            kill(pid, SIGINT)
        }
        #expect(stopped.status == 130, "\(stopped.error)")
        let again = try tool(arguments)
        #expect(again.status == 0, "\(again.error)")
        #expect(try folder.value("app.db", "SELECT sum(n - id) FROM messages") == .integer(2500))
        #expect(try folder.value("app.db", "SELECT b FROM t") == .integer(2))
    }

    /// Such a script looks like the output of a program that has failed.
    @Test(arguments: ["", "-- nothing\n;"]) func aScriptWithoutAStatementDropsNothing(_ text: String) throws {
        let path = try folder.database("app.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1);")
        let before = try folder.dump("app.db")
        let result = try tool(["upgrade", path, "--schema", try script(text), "--allow-drop"])
        #expect(result.status == 1 && result.error.contains("the schema declares nothing"), "\(result)")
        #expect(try folder.dump("app.db") == before)
    }

    @Test func whatCannotBeUnderstoodIsTold() throws {
        let path = try folder.database("app.db", "CREATE TABLE t(a);")
        #expect(try BuiltTool.run("upgrade", path).status == 64)
        #expect(try BuiltTool.run("upgrade", path, "--schema", "x", "--rename", "a").status == 64)
        let missing = try BuiltTool.run("upgrade", path, "--schema", folder.file("none.sql"))
        #expect(missing.status == 1)
        #expect(missing.error.contains("cannot read"))
        let other = try BuiltTool.run("upgrade", path, "--schema", script("DROP TABLE t"))
        #expect(other.status == 1)
        #expect(other.error.contains("a schema is made of CREATE TABLE"))
    }
}
