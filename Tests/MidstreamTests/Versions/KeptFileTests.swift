import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Files as an earlier release has left them in the midst of a migration: each later one reads them, and goes on.
///
/// `Kept/` has a folder for each format and state, which is never made again. After a change of the format, or of what a file
/// of the same format may hold, `MIDSTREAM_KEEP_FILES=folder` writes those of the present one.
@Suite struct KeptFileTests {
    enum State: String, CaseIterable, Sendable {
        /// Three tables that have moved in part: with rowids, without, and with mapped columns and rows set aside.
        case moving
        /// A table that returns to its source.
        case returning
        /// A table that was rebuilt by a step.
        case rebuilt
    }

    private static let folder =
        "\(#filePath)".split(separator: "/", omittingEmptySubsequences: false).dropLast()
        .joined(separator: "/") + "/Kept"

    @Test(arguments: ["1"], State.allCases)
    func aMigrationThatAnEarlierReleaseHasBegunGoesOn(_ format: String, _ state: State) throws {
        let kept = "\(Self.folder)/\(format)-\(state)"
        let folder = TemporaryFolder()
        for name in ["target.db", "source.db"] {
            try #require(Files.exists("\(kept)/\(name)"), "there is no \(kept)/\(name)")
            Files.copy("\(kept)/\(name)", to: folder.file(name))
        }
        try check(state, folder)
    }

    @Test(arguments: State.allCases) func theFilesOfThisReleaseAreSuch(_ state: State) throws {
        let folder = TemporaryFolder()
        try make(state, folder.path)
        if let kept = Files.environment("MIDSTREAM_KEEP_FILES") {
            let copy = "\(kept)/\(try Self.format(of: folder.file("target.db")))-\(state)"
            mkdir(copy, 0o755)
            for name in ["target.db", "source.db"] { Files.copy(folder.file(name), to: "\(copy)/\(name)") }
        }
        try check(state, folder)
    }

    private static func format(of path: String) throws -> Int64 {
        let connection = try Connection(path: path)
        defer { connection.close() }
        return try connection.fetchValue(Int64.self, "SELECT format FROM midstream_state") ?? 0
    }

    // MARK: What they hold

    private static let tables = """
        CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT UNIQUE, size REAL);
        CREATE TABLE settings(owner TEXT COLLATE NOCASE, key TEXT, value, PRIMARY KEY(owner, key DESC)) WITHOUT ROWID;
        """
    private static let people = "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT NOT NULL, age INTEGER)"
    private static let oldPeople = "CREATE TABLE people(id INTEGER PRIMARY KEY, first TEXT, last TEXT, age TEXT)"

    private static func fill(_ connection: Connection) throws {
        for id in 1...60 {
            try connection.execute("INSERT INTO notes VALUES (?, ?, ?)", [id, "note \(id)", Double(id) / 4])
            try connection.execute(
                "INSERT INTO settings VALUES (?, ?, ?)",
                ["Owner \(id % 6)", "key \(id)", id % 5 == 0 ? nil : id]
            )
        }
    }

    private static let writes = [
        "UPDATE notes SET body = body || '!' WHERE id IN (2, 50, 55)", "DELETE FROM notes WHERE id IN (7, 58)",
        "INSERT INTO notes(id, body, size) VALUES (100, 'new', 1)",
        "UPDATE settings SET value = 'set' WHERE key IN ('key 9', 'key 31')",
    ]

    /// What the tables hold, whatever has moved.
    private static let contents: [State: [String]] = {
        var notes: [String] = []
        for id in 1...60 where id != 7 && id != 58 {
            let size = "\(Double(id) / 4)"
            notes.append("\(id)|note \(id)\([2, 50, 55].contains(id) ? "!" : "")|\(size)")
        }
        notes.append("100|new|1.0")
        let settings = (1...60).map { id in
            let value = [9, 31].contains(id) ? "set" : id % 5 == 0 ? "NULL" : "\(id)"
            return "Owner \(id % 6)|key \(id)|\(value)"
        }
        let people = (1...40).filter { $0 % 13 != 0 }.map { "\($0)|f\($0) l\($0)|\($0)" }
        return [.moving: notes + settings + people, .returning: notes + settings, .rebuilt: notes.map { $0 + "|7" }]
    }()

    private func rows(_ fetch: (String) throws -> [Row], _ state: State) throws -> [String] {
        var sql = ["SELECT * FROM notes ORDER BY id"]
        if state != .rebuilt { sql.append("SELECT * FROM settings ORDER BY CAST(substr(key, 5) AS INTEGER)") }
        if state == .moving { sql.append("SELECT * FROM people WHERE name IS NOT NULL ORDER BY id") }
        return try sql.flatMap { texts(try fetch($0)) }
    }

    // MARK: Made

    private func make(_ state: State, _ path: String) throws {
        for name in ["target.db", "source.db"] {
            let connection = try Connection(path: "\(path)/\(name)")
            defer { connection.close() }
            try connection.execute("PRAGMA page_size = 512")
            try connection.execute("PRAGMA journal_mode = WAL")
            if name == "target.db" || state != .rebuilt { try connection.execute(script: Self.tables) }
            if (name == "target.db") == (state == .rebuilt) { try Self.fill(connection) }
            if state == .moving {
                try connection.execute(script: name == "target.db" ? Self.people : Self.oldPeople)
                for id in 1...40 where name == "source.db" {
                    try connection.execute(
                        "INSERT INTO people VALUES (?, ?, ?, ?)",
                        [id, id % 13 == 0 ? nil : "f\(id)", "l\(id)", "\(id)"]
                    )
                }
            }
        }
        let database = try Database(path: "\(path)/target.db")
        if state == .rebuilt {
            try database.upgrade(Self.upgrades)
        } else {
            try database.addMigration(source: .file("\(path)/source.db"), filter: Self.filter(state))
        }
        try database.stepMigration(rows: 20)
        for sql in Self.writes where state != .rebuilt || !sql.contains("settings") { try database.execute(sql) }
        if state == .moving {
            for table in ["settings", "people"] { try database.stepMigration(rows: 21, of: table) }
        }
        if state == .returning {
            try database.cancelMigration()
            for _ in 0..<2 { try database.stepMigration(rows: 4) }
        }
        #expect(!database.isMigrated)
        database.close()
        for name in ["target.db", "source.db"] {
            let connection = try Connection(path: "\(path)/\(name)")
            try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        }
    }

    private static let upgrades: SchemaUpgrades = {
        var upgrades = SchemaUpgrades()
        upgrades.add("first", version: 1) { _ in }
        upgrades.add("notes have a flag", version: 2) { access in
            try access.rebuild("notes") { table in
                table.schema = "CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT UNIQUE, size REAL, flag DEFAULT 7)"
                table.columns["flag"] = .defaultValue
                table.rowsCopiedAtOnce = 0
            }
        }
        return upgrades
    }()

    private static func filter(_ state: State) -> @Sendable (inout TableMigration) -> Void {
        { table in
            table.sourceTable = table.name
            guard table.name == "people" else { return }
            table.columns["name"] = .expression("first || ' ' || last")
            table.unmatchedColumns = .ignored
            table.refusedRows = .setAside
        }
    }

    // MARK: Looked at

    private func check(_ state: State, _ folder: TemporaryFolder) throws {
        let expected = Self.contents[state] ?? []
        var database = try Database(path: folder.file("target.db"))
        #expect(!database.isMigrated)
        #expect(try rows({ try database.fetchAll($0) }, state) == expected)
        try database.execute("UPDATE notes SET size = size WHERE id > 30")
        try finishMigration(database)
        database.close()
        let whole = try Connection(path: folder.file(state == .returning ? "source.db" : "target.db"))
        defer { whole.close() }
        #expect(try rows({ try whole.fetchAll($0) }, state) == expected)
        #expect(try whole.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        let left = try whole.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%' ORDER BY name")
        let kept: [State: [String]] = [.moving: ["midstream_refused_people"], .rebuilt: ["midstream_upgrades"]]
        #expect(texts(left) == kept[state] ?? [])
        guard state == .rebuilt else { return }
        database = try Database(path: folder.file("target.db"))
        #expect(try database.upgrade(Self.upgrades).steps.isEmpty)
    }
}
