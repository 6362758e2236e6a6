import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The loadable extension, in programs that are not Midstream's: the `sqlite3` shell and Python.
@Suite struct ExtensionTests {
    private static let library = BuiltTool.path(of: "libMidstreamExtension.so")
    private static let shell = program(["/usr/bin/sqlite3"])
    private static let python = program(["/usr/bin/python3"])
    /// Whether these programs have the SQLite that the extension is linked with.
    private static let isShared = !Connection.canEncrypt

    private static func program(_ paths: [String]) -> String? { paths.first { access($0, X_OK) == 0 } }

    /// A target of which half of the rows have moved.
    private static func target(_ folder: TestFolder) throws -> String {
        let schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT, body TEXT);"
        let rows = """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO messages SELECT i, 'user ' || (i % 7), 'body ' || i FROM n
            """
        try folder.database("old.db", schema + rows)
        let target = try folder.database("new.db", schema)
        let database = try Database(path: target)
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        try database.stepMigration(rows: 500)
        return target
    }

    private static func run(_ program: String, _ arguments: [String], preloads: Bool = false) throws
        -> Subprocess.Result
    {
        try Subprocess.run(
            "/usr/bin/env",
            (preloads ? ["LD_PRELOAD=\(library)"] : []) + [program] + arguments
        )
    }

    @Test(.enabled(if: shell != nil && isShared, "no sqlite3 shell with this SQLite"), arguments: [true, false])
    func theShellReadsAndWritesAllRows(_ isLoadedBySQL: Bool) throws {
        let folder = TestFolder()
        let target = try Self.target(folder)
        let result = try Self.run(
            try #require(Self.shell),
            [
                target, isLoadedBySQL ? "SELECT load_extension('\(Self.library)')" : ".load \(Self.library)",
                "SELECT count(*), max(id) FROM messages", "UPDATE messages SET sender = 'x' WHERE id IN (10, 900)",
                "SELECT changes(), total_changes()", "DELETE FROM messages WHERE id > 990",
                "INSERT INTO messages(sender) VALUES ('x')", "SELECT last_insert_rowid()",
                "SELECT midstream_status() LIKE '[{\"table\":\"messages\",\"source\":%,\"phase\":\"copying\",%'",
                "SELECT midstream_refresh()", "SELECT midstream_step(60000)", "SELECT midstream_refresh()",
                "SELECT count(*), group_concat(id) FILTER (WHERE sender = 'x') FROM messages",
                "SELECT count(*) FROM sqlite_master WHERE name LIKE 'midstream%'",
            ]
        )
        let expected = ["1000|1000", "2|2", "991", "1", "1", "1", "0", "991|10,900,991", "0"]
        #expect(result.output.split(separator: "\n").map(String.init) == expected, "\(result.error)")
        #expect(result.status == 0)
    }

    @Test(.enabled(if: shell != nil && isShared, "no sqlite3 shell with this SQLite"))
    func preloadedItRewritesUpserts() throws {
        guard Connection.libraryVersionNumber >= 3_035_000 else { return }
        let folder = TestFolder()
        let target = try Self.target(folder)
        let sql = "INSERT INTO messages(id) VALUES (900) ON CONFLICT(id) DO UPDATE SET sender = 'new' RETURNING body"
        let load = ".load \(Self.library)"
        let shell = try #require(Self.shell)
        #expect(try Self.run(shell, [target, load, sql]).error.contains("UPSERT not implemented"))
        let result = try Self.run(shell, [target, load, sql, "SELECT count(*) FROM messages"], preloads: true)
        #expect(result.output == "body 900\n1000\n", "\(result.error)")
    }

    @Test(.enabled(if: python != nil && isShared, "no Python with this SQLite"))
    func pythonReadsWritesAndMovesRows() throws {
        let folder = TestFolder()
        let target = try Self.target(folder)
        let script = """
            import sqlite3, sys
            c = sqlite3.connect(sys.argv[1])
            if not hasattr(c, "enable_load_extension"): print("none"); sys.exit()
            c.enable_load_extension(True)
            c.load_extension(sys.argv[2])
            print(c.execute("SELECT count(*) FROM messages").fetchone()[0])
            with c: c.execute("UPDATE messages SET body = ? WHERE id IN (?, ?)", ("py", 5, 995))
            for bad in ("SELECT midstream_step('x')", "SELECT midstream_step(0)"):
                try: c.execute(bad).fetchone()
                except sqlite3.Error as e: print(e)
            while not c.execute("SELECT midstream_step(50)").fetchone()[0]: pass
            print(c.execute("SELECT midstream_refresh()").fetchone()[0])
            print(c.execute("SELECT midstream_status()").fetchone()[0])
            print(c.execute("SELECT count(*) FROM messages WHERE body = 'py'").fetchone()[0])
            c.close()
            m = sqlite3.connect(":memory:")
            m.enable_load_extension(True)
            m.load_extension(sys.argv[2])
            try: m.execute("SELECT midstream_step(1)").fetchone()
            except sqlite3.Error as e: print(e)
            """
        let result = try Self.run(try #require(Self.python), ["-c", script, target, Self.library])
        if result.output == "none\n" { return }
        let needsNumber = "midstream_step needs a number of milliseconds, such as midstream_step(100)"
        let expected = [
            "1000", needsNumber, needsNumber, "0", "[]", "2",
            "the connection's main database has no file, and a migration needs one",
        ]
        #expect(result.output.split(separator: "\n").map(String.init) == expected, "\(result.error)")
        #expect(result.status == 0)
    }

    /// A program that has a SQLite of its own passes the functions of that one.
    @Test func anotherSQLiteIsRefused() throws {
        typealias Entry =
            @convention(c) (
                OpaquePointer?, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, UnsafePointer<UnsafeRawPointer?>?
            ) -> CInt
        let library = try #require(dlopen(Self.library, RTLD_NOW | RTLD_LOCAL), "\(String(cString: dlerror()))")
        let symbol = try #require(dlsym(library, "sqlite3_midstreamextension_init"))
        let entry = unsafeBitCast(symbol, to: Entry.self)
        var message: UnsafeMutablePointer<CChar>?
        var routine: UnsafeRawPointer? = UnsafeRawPointer(symbol)
        #expect(entry(OpaquePointer(symbol), &message, &routine) != 0)
        #expect(message.map { String(cString: $0) }?.contains("this program has another copy of SQLite") ?? false)
        #expect(entry(nil, &message, nil) != 0)
    }

    @Test(.enabled(if: shell != nil && isShared, "no sqlite3 shell with this SQLite"))
    func whatKeepsTheOverlayAwayIsTold() throws {
        let folder = TestFolder()
        let target = try Self.target(folder)
        let result = try Self.run(
            try #require(Self.shell),
            [target, "CREATE TEMP TABLE messages(a)", ".load \(Self.library)"]
        )
        #expect(result.error.contains("TEMP table"), "\(result.output) \(result.error)")
    }
}
