import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Rows that cannot move, and options that differ from those before, as a user of the command meets them.
@Suite struct UnfitRowTests {
    private let folder = TestFolder()

    private static let rows = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, a, b);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO t SELECT i, CASE WHEN i % 1000 THEN 'a' || i END, i FROM n;
        """

    @Test func anUpgradeOverRowsThatDoNotFitChangesNothing() throws {
        let path = try folder.database("app.db", Self.rows)
        let schema = try folder.database("wanted.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL, b)")
        let script = try BuiltTool.run("sql", schema, input: "SELECT sql FROM sqlite_master").output
        let before = try folder.dump("app.db")
        for plan in [["--plan"], []] {
            let refused = try Subprocess.run(BuiltTool.path, ["upgrade", path, "--schema", "-"] + plan, input: script)
            #expect(refused.status == 1)
            let words =
                "midstream: error: 3 rows of table t (rowids 1000, 2000, 3000) do not fit the table's new shape: NULL in column a. "
            #expect(refused.error.hasPrefix(words), "\(refused.error)")
            #expect(!refused.error.contains("refusedRows") && refused.output.isEmpty)
            #expect(try folder.dump("app.db") == before)
        }
        // The remedy: the rows are changed.
        _ = try BuiltTool.run("sql", path, input: "UPDATE t SET a = 'none' WHERE a IS NULL;")
        let result = try Subprocess.run(BuiltTool.path, ["upgrade", path, "--schema", "-"], input: script)
        #expect(result.status == 0, "\(result.error)")
        #expect(try folder.value("app.db", "SELECT count(*) FROM t WHERE a = 'none'") == .integer(3))
    }

    @Test func anUpgradeThatGoesOnIsToldTheSame() throws {
        let path = try folder.database("app.db", Self.rows)
        let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL, b);"
        // The upgrade begins, and no row moves yet.
        let upgrade = ["upgrade", path, "--schema", "-"]
        let begun = try Subprocess.run(
            BuiltTool.path,
            upgrade + ["--map", "t.a=coalesce(a, '')", "--pace", "gentle", "--budget", "1ms"],
            input: script
        ) { pid in
            // A process that fails never reaches this phase.
            for _ in 0..<3000 {
                if (try? folder.value("app.db", "SELECT phase FROM midstream_tables")) == .integer(1) { break }
                usleep(10_000)
            }
            kill(pid, SIGINT)
        }
        #expect(begun.output.contains("its rows move in steps"), "\(begun.output) \(begun.error)")
        for (mapping, words) in [
            ("t.a=coalesce(a, 'x')", "with column a made of coalesce(a, ''), and now coalesce(a, 'x') was asked for"),
            ("t.b=b + 1", "with column b made of column b, and now b + 1 was asked for"),
        ] {
            let other = try Subprocess.run(BuiltTool.path, upgrade + ["--map", mapping], input: script)
            #expect(other.status == 1 && other.error.contains(words), "\(other.output) \(other.error)")
        }
        let same = try Subprocess.run(BuiltTool.path, upgrade + ["--map", "t.a=coalesce(a,'')"], input: script)
        #expect(same.status == 0, "\(same.error)")
        #expect(try folder.value("app.db", "SELECT count(*) FROM t WHERE a = ''") == .integer(3))
    }

    @Test func aMappingThatFailsOnRowsBeginsNothing() throws {
        let old = try folder.database(
            "old.db",
            "CREATE TABLE d(id INTEGER PRIMARY KEY, n); INSERT INTO d VALUES (1, 1), (2, -9223372036854775808), (3, -3)"
        )
        let new = try folder.database("new.db", "CREATE TABLE d(id INTEGER PRIMARY KEY, a)")
        let arguments = ["migrate", new, "--source", old, "--table", "d", "--ignore-unmatched"]
        let refused = try Subprocess.run(BuiltTool.path, arguments + ["--map", "d.a=abs(n)"])
        let words =
            "the expression for column a of table d fails on 1 row of source table d (rowid 2): integer overflow. "
        #expect(refused.status == 1 && refused.error.contains(words), "\(refused.error)")
        #expect(try BuiltTool.run("status", new).output == "\(new) has no migrations\n")
        let other = try Subprocess.run(BuiltTool.path, arguments + ["--map", "d.a=CASE WHEN n > -9 THEN abs(n) END"])
        #expect(other.status == 0, "\(other.error)")
        #expect(try folder.value("new.db", "SELECT group_concat(ifnull(a, 'none')) FROM d") == .text("1,none,3"))
    }

    @Test func optionsThatSaySomethingElseAreRefused() throws {
        let old = try folder.database("old.db", Self.rows)
        let new = try folder.database("new.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, c DEFAULT 1)")
        let source = ["--source", old, "--table", "t"]
        let first = source + ["--map", "t.a=upper(a)", "--ignore-unmatched", "--where", "id > 1"]
        #expect(try Subprocess.run(BuiltTool.path, ["sql", new] + first, input: "").status == 0)
        let migrate = ["migrate", new]
        for (options, words) in [
            (
                source + ["--map", "t.a=lower(a)", "--ignore-unmatched", "--where", "id > 1"],
                "column a made of upper(a)"
            ),
            (source + ["--ignore-unmatched", "--where", "id > 1"], "column a made of upper(a), and now column a"),
            (first + ["--map", "t.c=b"], "column c made of 1, and now b"),
            (source + ["--map", "t.a=upper(a)", "--where", "id > 1"], "column c made of 1, and now nothing"),
            (source + ["--map", "t.a=upper(a)", "--ignore-unmatched"], "now all rows were asked for"),
            (first + ["--keep-source"], "began to move with no --keep-source, and now --keep-source"),
        ] {
            let result = try Subprocess.run(BuiltTool.path, migrate + options)
            #expect(result.status == 1 && result.error.contains(words), "\(options) \(result.error)")
        }
        let same = try Subprocess.run(BuiltTool.path, migrate + first)
        #expect(same.status == 0, "\(same.error)")
        #expect(try folder.value("new.db", "SELECT count(*) || min(a) FROM t") == .text("2999A10"))
    }

    @Test func anUpgradeNamesNoTableOfTheEnginesOwn() throws {
        let path = try folder.database("app.db", Self.rows)
        let upgrade = ["upgrade", path, "--schema", "-", "--pace", "gentle", "--budget", "1ms"]
        let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, c NOT NULL DEFAULT 'none' CHECK (c <> ''));"
        _ = try Subprocess.run(BuiltTool.path, upgrade, input: script) { pid in
            var isMoving = false
            for _ in 0..<2000 where !isMoving {
                usleep(5000)
                isMoving = (try? BuiltTool.run("status", path))?.output.contains("t: copying") == true
            }
            kill(pid, SIGKILL)
        }
        let status = try BuiltTool.run("status", path)
        guard status.output.contains("t: copying") else { return }
        #expect(status.output.contains("table t as it was before its upgrade"), "\(status.output)")
        #expect(!status.output.contains("midstream_"), "\(status.output)")
        let cancelled = try BuiltTool.run("cancel", path)
        #expect(cancelled.status == 1 && !cancelled.error.contains("midstream_"), "\(cancelled.error)")
    }
}
