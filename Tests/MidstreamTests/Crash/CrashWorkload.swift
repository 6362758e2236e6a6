import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

/// A migration from its beginning to its end, with transactions of the application between its steps.
///
/// All of it is the same each time, so that its writes can be counted in one run and died at in the next.
struct CrashWorkload {
    let scenario: CrashScenario
    let folder: String
    static let transactionCount = 24
    static let rowsPerStep: Int64 = 12

    var target: String { folder + "/new.db" }
    var source: String { folder + "/old.db" }
    /// One byte for each transaction that was reported committed.
    var committed: String { folder + "/committed" }

    var secondTable: String { scenario == .split ? "closed" : "notes" }

    var transactions: [CrashTransaction] {
        CrashTransaction.sequence(count: Self.transactionCount, seed: 20_251, secondTable: secondTable)
    }

    // MARK: Before

    private static let columns =
        "(id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT, code TEXT UNIQUE, amount INTEGER NOT NULL)"

    private static func rows(_ first: Int, _ last: Int, _ code: String) -> String {
        "WITH RECURSIVE n(i) AS (SELECT \(first) UNION ALL SELECT i + 1 FROM n WHERE i < \(last)) "
            + "SELECT i, 'o' || (i % 9), '\(code)' || i, i * 10 FROM n"
    }

    /// The tables as they would be without a migration, by SQLite alone.
    private func createWhole(_ connection: Connection) throws {
        try connection.execute(
            script: "CREATE TABLE accounts\(Self.columns); CREATE TABLE \(secondTable)\(Self.columns);"
        )
        try connection.execute("INSERT INTO accounts \(Self.rows(1, 160, "c"))")
        try connection.execute("INSERT INTO \(secondTable) \(Self.rows(scenario == .split ? 161 : 1, 220, "d"))")
        // A part of a table goes on with the ids of all of it.
        if scenario == .split { try connection.execute("UPDATE sqlite_sequence SET seq = 220") }
    }

    private func createSource(_ connection: Connection) throws {
        try connection.execute("CREATE TABLE old_accounts\(Self.columns)")
        try connection.execute("INSERT INTO old_accounts \(Self.rows(1, 160, "c"))")
        if scenario == .split {
            try connection.execute("INSERT INTO old_accounts \(Self.rows(161, 220, "d"))")
        } else {
            try connection.execute("CREATE TABLE old_notes\(Self.columns)")
            try connection.execute("INSERT INTO old_notes \(Self.rows(1, 220, "d"))")
        }
    }

    /// Makes both files. Small pages make many places to die at.
    func prepare() throws {
        Files.removeDatabase(target)
        Files.removeDatabase(source)
        let new = try Connection(path: target, options: OpenOptions(key: scenario.targetKey))
        if scenario.targetKey == nil { try new.execute("PRAGMA page_size = 1024") }
        try new.execute("CREATE TABLE accounts\(Self.columns)")
        try new.execute(
            script: "CREATE TABLE \(secondTable)\(Self.columns); CREATE INDEX by_owner ON accounts(owner);"
        )
        if scenario == .sameFile {
            try createSource(new)
        } else {
            let old = try Connection(path: source, options: OpenOptions(key: scenario.sourceKey))
            if scenario.sourceKey == nil { try old.execute("PRAGMA page_size = 1024") }
            try createSource(old)
            old.close()
        }
        new.close()
    }

    /// What the tables hold after each number of transactions, by SQLite alone.
    func expectations() throws -> [[String]] {
        let connection = try Connection(path: ":memory:")
        try createWhole(connection)
        var dumps = [try Self.dump(connection.fetchAll(dumpSQL))]
        for transaction in transactions {
            try transaction.run(natively: connection)
            dumps.append(try Self.dump(connection.fetchAll(dumpSQL)))
        }
        return dumps
    }

    var dumpSQL: String {
        "SELECT 'accounts' AS t, id, owner, code, amount FROM accounts "
            + "UNION ALL SELECT '\(secondTable)', id, owner, code, amount FROM \(secondTable) ORDER BY t, id"
    }

    static func dump(_ rows: [Row]) throws -> [String] {
        rows.map { row in (0..<5).map { "\(row[$0])" }.joined(separator: " ") }
    }

    // MARK: The run

    func open() throws -> Database {
        let database = try Database(path: target, key: scenario.targetKey, configuration: scenario.configuration)
        if scenario == .sameFile || Files.exists(source) || scenario == .deleteFile { try addMigration(database) }
        return database
    }

    private func addMigration(_ database: Database) throws {
        let isSplit = scenario == .split
        let isSameFile = scenario == .sameFile
        try database.addMigration(
            source: isSameFile ? .sameDatabase : .file(source, key: scenario.sourceKey),
            retirement: scenario.retirement
        ) { table in
            switch table.name {
            case "accounts":
                table.sourceTable = "old_accounts"
                if isSplit { table.condition = "id <= 160" }
            case "notes": table.sourceTable = "old_notes"
            case "closed":
                table.sourceTable = "old_accounts"
                table.condition = "id > 160"
            default: break
            }
        }
    }

    /// Opens the database, goes on after the first `done` transactions, and moves everything.
    func run(after done: Int = 0) throws {
        let database = try open()
        for transaction in transactions.dropFirst(done) {
            try database.stepMigration(rows: Self.rowsPerStep)
            try transaction.run(on: database)
            Files.mark(committed)
        }
        try finish(database)
        database.close()
    }

    func finish(_ database: Database) throws {
        for _ in 0..<1000 where try !database.stepMigration().isFinished {}
        try #require(database.isMigrated, "the migration does not come to its end")
    }

    // MARK: After

    /// Checks what a process that died has left behind, then goes on to the end and checks that.
    ///
    /// - Parameter losesLast: Whether the last transactions may be gone, as after a loss of power.
    func check(_ expected: [[String]], losesLast: Bool = false, _ comment: Comment) throws {
        let reported = Files.size(committed)
        let database = try open()
        let found = try Self.dump(database.fetchAll(dumpSQL))
        let allowed = (losesLast ? 0 : reported)...min(reported + 1, expected.count - 1)
        // Not every transaction changes something; the newest state that fits is the one that is meant.
        guard let done = allowed.last(where: { expected[$0] == found }) else {
            let nearest = expected[min(reported + 1, expected.count - 1)]
            let surplus = Set(found).subtracting(nearest).sorted().prefix(5)
            let missing = Set(nearest).subtracting(found).sorted().prefix(5)
            Issue.record(
                "\(comment): after \(reported) transactions, found \(found.count) rows; surplus \(surplus), missing \(missing)"
            )
            return
        }
        #expect(try Set(found).count == database.fetchValue(Int.self, countSQL), comment)
        for transaction in transactions.dropFirst(done) {
            try database.stepMigration(rows: Self.rowsPerStep)
            try transaction.run(on: database)
        }
        try finish(database)
        #expect(try Self.dump(database.fetchAll(dumpSQL)) == expected.last, comment)
        database.close()
        try checkFiles(expected, comment)
    }

    private var countSQL: String { "SELECT (SELECT count(*) FROM accounts) + (SELECT count(*) FROM \(secondTable))" }

    /// Checks both files without the engine.
    private func checkFiles(_ expected: [[String]], _ comment: Comment) throws {
        let plain = try Connection(path: target, options: OpenOptions(key: scenario.targetKey))
        #expect(try Self.dump(plain.fetchAll(dumpSQL)) == expected.last, comment)
        #expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok", comment)
        let names = try plain.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE '%midstream%'")
        #expect(names.isEmpty, comment)
        switch scenario {
        case .sameFile:
            #expect(
                try plain.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'old%'").isEmpty,
                comment
            )
        case .deleteFile:
            for suffix in ["", "-wal", "-shm"] { #expect(!Files.exists(source + suffix), comment) }
        case .drop, .keep, .split, .rollbackJournal, .encrypted:
            let old = try Connection(path: source, options: OpenOptions(key: scenario.sourceKey))
            #expect(try old.fetchValue(String.self, "PRAGMA integrity_check") == "ok", comment)
            let type = try old.fetchValue(String.self, "SELECT type FROM sqlite_master WHERE name = 'old_accounts'")
            #expect(type == (scenario == .keep ? "table" : "view"), comment)
            old.close()
        }
        plain.close()
    }
}
