import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Two targets with the same two sources, which threads open, begin to move, step, write, cancel and close at the same time.
///
/// `MIDSTREAM_TARGETS` says how many rounds are tried.
@Suite struct TargetsTogetherTests {
    private static let rounds = Files.environment("MIDSTREAM_TARGETS").flatMap { Int($0) } ?? 4
    private static let targets = ["a.db", "b.db"]
    private static let sources = ["one.db", "two.db"]
    private static let tables = ["one_t", "one_u", "two_t", "two_u"]

    @Test func nobodyWaitsInVainAndEachRowIsInOnePlaceWithAllItsWrites() async throws {
        var added = 0
        for round in 0..<Self.rounds {
            let (folder, rows) = (TemporaryFolder(), [20, 200, 2000][round % 3])
            for source in Self.sources {
                let old = try Connection(path: folder.file(source))
                if round.isMultiple(of: 2) { try old.execute("PRAGMA journal_mode = WAL") }
                for table in Self.tables where table.hasPrefix(source.prefix(3)) {
                    try old.execute("CREATE TABLE \(table)(id INTEGER PRIMARY KEY, x)")
                    try old.execute(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows)) INSERT INTO \(table) SELECT i, 0 FROM n"
                    )
                }
            }
            for target in Self.targets {
                let new = try Connection(path: folder.file(target))
                for table in Self.tables { try new.execute("CREATE TABLE \(table)(id INTEGER PRIMARY KEY, x)") }
            }
            let threads = Threads()
            for name in ["a", "b", "c", "d"] {
                threads.loop(name, after: 0) { threads in
                    let database = try Database(path: folder.file(Self.targets.randomElement()!))
                    defer { database.close() }
                    for _ in 0..<Int.random(in: 1...6) {
                        try use(database, folder.file(Self.sources.randomElement()!), rows: rows, threads)
                    }
                }
            }
            usleep(1_000_000)
            threads.end()
            await threads.join()
            for table in Self.tables {
                try check(table, folder, rows: rows, added: threads.count(of: table))
                added += threads.count(of: table)
            }
        }
        #expect(added > 0)
    }

    private func use(_ database: Database, _ source: String, rows: Int, _ threads: Threads) throws {
        let table = Self.tables.randomElement()!
        do {
            switch Int.random(in: 0..<8) {
            case 0, 1:
                // While tables move, no other retirement may be asked for.
                let retirement: SourceRetirement = (rows == 200) == source.hasSuffix("one.db") ? .drop : .keep
                try database.addMigration(source: .file(source), retirement: retirement, allowsNoTables: true) {
                    if $0.name.hasPrefix(source.suffix(6).prefix(3)), Bool.random() { $0.sourceTable = $0.name }
                }
            case 2: try database.cancelMigration(of: Bool.random() ? nil : [table])
            case 3, 4: _ = try database.stepMigration(rows: 50)
            case 5:
                try add(to: [table], Int64.random(in: 1...Int64(rows)), database, threads)
            case 6:
                try add(to: Self.tables, 7, database, threads)
            default:
                let seen = try database.fetchValue(Int.self, "SELECT count(*) FROM \(table)") ?? 0
                if seen != 0, seen != rows { threads.note("\(table): \(seen) of \(rows) rows") }
            }
        } catch let error as MigrationError {
            // The other target has the table or has had it, or the table is coming back; or there is nothing to cancel,
            // or it is too late.
            let isExpected =
                [.foreignState, .unsupported, .missingTable].contains(error.code)
                || error.code == .misuse && error.message.contains("does not move")
            if !isExpected { throw error }
        }
    }

    /// Adds one to a row of each of these tables that this target has.
    private func add(to tables: [String], _ id: Int64, _ database: Database, _ threads: Threads) throws {
        let written = try database.write { access in
            try tables.filter {
                try access.execute("UPDATE \($0) SET x = x + 1 WHERE id = ?", [id])
                return access.changes == 1
            }
        }
        for table in written { threads.count(table) }
    }

    /// Lets everything move to its end.
    private func check(_ table: String, _ folder: TemporaryFolder, rows: Int, added: Int) throws {
        let all = "SELECT count(*) || ', ' || ifnull(sum(x), 0) FROM \(table)"
        var found: [String?] = []
        for target in Self.targets {
            let database = try Database(path: folder.file(target))
            defer { database.close() }
            try finishMigration(database)
            found.append(try database.fetchValue(String.self, all))
        }
        if found.allSatisfy({ $0 == "0, 0" }) {
            found.append(try Connection(path: folder.file("\(table.prefix(3)).db")).fetchValue(String.self, all))
        }
        #expect(found.filter { $0 != "0, 0" } == ["\(rows), \(added)"], "\(table)")
    }
}
