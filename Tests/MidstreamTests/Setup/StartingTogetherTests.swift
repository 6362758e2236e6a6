import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Programs that are started at the same time. Each begins the same migration, works with it, and ends it together with
/// the others. `MidstreamTorture` does this with processes.
///
/// `MIDSTREAM_STARTS` says how many rounds of each kind are tried.
@Suite struct StartingTogetherTests {
    private static let rounds = Files.environment("MIDSTREAM_STARTS").flatMap { Int($0) } ?? 8
    private static let programs = 4

    @Test(arguments: CommonStart.Kind.allCases) func nobodySeesLessThanAllRows(_ kind: CommonStart.Kind) async throws {
        for round in 0..<Self.rounds {
            let fixture = try MovingFixture(rows: [20, 100, 400][round % 3], isSameFile: kind.isSameFile)
            let start = CommonStart(kind: kind, folder: fixture.folder.path, rows: fixture.rows)
            let (threads, visitors) = (Threads(), Threads())
            visitors.start("\(kind), round \(round), visitor") { try start.visit($0) }
            for index in 0..<Self.programs {
                threads.start("\(kind), round \(round), \(index)") { try start.run(round * 10 + index, $0) }
            }
            await threads.join()
            visitors.end()
            await visitors.join()
        }
    }
}

/// What the programs begin at the same time, and what each of them does with it.
struct CommonStart: Sendable {
    enum Kind: CaseIterable {
        case otherFile, sameFile, rebuild, wholeFile, deletedFile

        var isSameFile: Bool { self == .sameFile || self == .rebuild }
    }

    var kind: Kind
    var folder: String
    /// The number of rows. Each row has the amount 100.
    var rows: Int

    private var source: String { kind.isSameFile ? target : folder + "/old.db" }
    private var target: String { folder + (kind == .wholeFile ? "/whole.db" : "/new.db") }
    /// The table that the programs use.
    private var table: String { kind == .wholeFile || kind == .rebuild ? "old_accounts" : "accounts" }

    private func begin() throws -> Database {
        if kind == .wholeFile { return try Database(path: target, movingAllOf: .file(source), retirement: .drop) }
        let database = try Database(path: target)
        if kind == .rebuild {
            var upgrades = SchemaUpgrades()
            upgrades.add("owners are required") { access in
                try access.rebuild("old_accounts") { table in
                    table.schema =
                        "CREATE TABLE old_accounts(id INTEGER PRIMARY KEY, owner TEXT NOT NULL, amount INTEGER NOT NULL)"
                    table.rowsCopiedAtOnce = 0
                }
            }
            try database.upgrade(upgrades)
            return database
        }
        let retirement = kind == .deletedFile ? SourceRetirement.deleteFileWhenEmpty : .drop
        try database.addMigration(source: kind == .sameFile ? .sameDatabase : .file(source), retirement: retirement) {
            table in
            if table.name == "accounts" { table.sourceTable = "old_accounts" }
        }
        return database
    }

    /// - Returns: The count and the sum, if they are wrong.
    private func look(_ access: DatabaseAccess) throws -> [SQLiteValue]? {
        let seen = try access.fetchOne("SELECT count(*), sum(amount) FROM \(table)")?.values ?? []
        return seen == [.integer(Int64(rows)), .integer(Int64(rows) * 100)] ? nil : seen
    }

    /// Begins, reads, writes and steps, until all rows have moved.
    func run(_ seed: Int, _ threads: Threads) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        if Bool.random(using: &random) { usleep(UInt32.random(in: 0..<4000, using: &random)) }
        let database = try begin()
        defer { database.close() }
        func check(_ seen: [SQLiteValue]?) {
            if let seen { threads.note("\(kind), \(seed): \(seen) of \(rows) rows") }
        }
        var isFinished = false
        while !isFinished {
            check(try database.read(look))
            let ids = (0..<2).map { _ in Int64.random(in: 1...Int64(rows), using: &random) }
            let seen = try database.write { access in
                try access.execute("UPDATE \(table) SET amount = amount - 1 WHERE id = ?", [ids[0]])
                try access.execute("UPDATE \(table) SET amount = amount + 1 WHERE id = ?", [ids[1]])
                return try look(access)
            }
            check(seen)
            isFinished = try database.stepMigration(rows: 7).isFinished
        }
        check(try database.read(look))
    }

    /// Opens the file again and again, as a program that does not know of the migration. From one moment on, the file
    /// shows all rows; before that, none.
    func visit(_ threads: Threads) throws {
        var configuration = DatabaseConfiguration()
        configuration.createsFile = false
        configuration.busyTimeout = .seconds(60)
        var hasBegun = kind == .rebuild
        while !threads.isOver {
            guard Files.size(target) > 0 else {
                usleep(100)
                continue
            }
            do {
                let database = try Database(path: target, configuration: configuration)
                defer { database.close() }
                for _ in 0..<3 {
                    let sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
                    guard try hasBegun || database.fetchOne(sql, [table]) != nil else { continue }
                    let seen = try database.read(look)
                    hasBegun = hasBegun || seen == nil
                    if let seen, hasBegun || seen.first != .integer(0) { threads.note("\(kind), visitor: \(seen)") }
                }
            } catch let error as MigrationError where kind == .wholeFile && error.code == .misuse && !hasBegun {
                // The file has been made, and its move has yet to begin.
            }
        }
    }
}
