import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

/// A migration from its beginning to its end, with transactions of the application between its steps.
///
/// Every run is the same, so that one run can count the writes, and the next can die at one of them.
struct CrashWorkload {
    let scenario: CrashScenario
    let folder: String
    static let transactionCount = 24
    static let rowsPerStep: Int64 = 12

    var target: String { folder + "/new.db" }
    var source: String { folder + "/old.db" }
    /// The file in the middle of a chain.
    var middle: String { folder + "/middle.db" }
    /// This file has one byte for each transaction that was reported as committed.
    var committed: String { folder + "/committed" }

    var secondTable: String { scenario == .split ? "closed" : "notes" }

    var transactions: [CrashTransaction] {
        CrashTransaction.sequence(count: Self.transactionCount, seed: 20_251, secondTable: secondTable)
    }

    // MARK: Before

    private static let columns =
        "(id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT, code TEXT UNIQUE, amount INTEGER NOT NULL)"
    /// The columns of a source whose columns are mapped.
    private static let otherColumns =
        "(id INTEGER PRIMARY KEY AUTOINCREMENT, holder TEXT, code TEXT UNIQUE, hundredths INTEGER NOT NULL)"

    private static func rows(_ first: Int, _ last: Int, _ code: String, amount: String = "i * 10") -> String {
        "WITH RECURSIVE n(i) AS (SELECT \(first) UNION ALL SELECT i + 1 FROM n WHERE i < \(last)) "
            + "SELECT i, 'o' || (i % 9), '\(code)' || i, \(amount) FROM n"
    }

    /// The ids of the rows that the target does not take. They are above all other ids.
    private static let refused = 221...224

    /// Makes the tables as they would be without a migration, with SQLite alone.
    private func createWhole(_ connection: Connection) throws {
        try connection.execute(
            script: "CREATE TABLE accounts\(Self.columns); CREATE TABLE \(secondTable)\(Self.columns);"
        )
        try connection.execute("INSERT INTO accounts \(Self.rows(1, 160, "c"))")
        try connection.execute("INSERT INTO \(secondTable) \(Self.rows(scenario == .split ? 161 : 1, 220, "d"))")
        // The AUTOINCREMENT of a part of a table goes on from the ids of the whole table.
        if scenario == .split { try connection.execute("UPDATE sqlite_sequence SET seq = 220") }
        if scenario == .setAside {
            try connection.execute("UPDATE sqlite_sequence SET seq = \(Self.refused.upperBound) WHERE name = 'notes'")
        }
    }

    private func createSource(_ connection: Connection) throws {
        if scenario == .mapped {
            try connection.execute("CREATE TABLE old_accounts\(Self.otherColumns)")
            try connection.execute("INSERT INTO old_accounts \(Self.rows(1, 160, "c", amount: "i * 1000 + 7"))")
        } else {
            try connection.execute("CREATE TABLE old_accounts\(Self.columns)")
            let last = scenario.hasSeveralSources ? 80 : 160
            try connection.execute("INSERT INTO old_accounts \(Self.rows(1, last, "c"))")
        }
        if scenario.hasSeveralSources {
            try connection.execute("CREATE TABLE older_accounts\(Self.columns)")
            try connection.execute("INSERT INTO older_accounts \(Self.rows(81, 160, "c"))")
        }
        if scenario == .split {
            try connection.execute("INSERT INTO old_accounts \(Self.rows(161, 220, "d"))")
        } else {
            try connection.execute("CREATE TABLE old_notes\(Self.columns)")
            try connection.execute("INSERT INTO old_notes \(Self.rows(1, 220, "d"))")
        }
        if scenario == .setAside {
            for id in Self.refused {
                try connection.execute("INSERT INTO old_notes VALUES (\(id), NULL, 'x\(id)', 0)")
            }
        }
    }

    /// Makes the files. Small pages make many places at which to die.
    func prepare() throws {
        Files.removeDatabase(target)
        Files.removeDatabase(source)
        Files.removeDatabase(middle)
        let new = try Connection(path: target, options: OpenOptions(key: scenario.targetKey))
        if scenario.targetKey == nil { try new.execute("PRAGMA page_size = 1024") }
        try new.execute("CREATE TABLE accounts\(Self.columns)")
        let check = scenario == .setAside ? ", CHECK (owner IS NOT NULL))" : ")"
        try new.execute(
            script:
                "CREATE TABLE \(secondTable)\(Self.columns.dropLast())\(check); CREATE INDEX by_owner ON accounts(owner);"
                + "CREATE TABLE extra(x);"
        )
        if scenario == .chain { try new.execute("CREATE TABLE middle_accounts\(Self.columns)") }
        if scenario.isSameFile {
            try createSource(new)
        } else {
            let old = try Connection(path: source, options: OpenOptions(key: scenario.sourceKey))
            if scenario.sourceKey == nil { try old.execute("PRAGMA page_size = 1024") }
            try createSource(old)
            old.close()
        }
        new.close()
        if scenario.isChainOfFiles {
            let connection = try Connection(path: middle, options: OpenOptions(key: scenario.sourceKey))
            if scenario.sourceKey == nil { try connection.execute("PRAGMA page_size = 1024") }
            try connection.execute("CREATE TABLE middle_accounts\(Self.columns)")
            connection.close()
        }
        guard scenario.hasRollbackJournalOfSource else { return }
        // The beginning of a migration sets the source to WAL.
        try open().close()
        let old = try Connection(path: source)
        // If the file is in use, SQLite answers with the mode as it was.
        try #require(old.fetchValue(String.self, "PRAGMA journal_mode = DELETE") == "delete")
        old.close()
    }

    /// What the tables hold after each number of transactions, with SQLite alone.
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
        // Refused rows are recognised by their NULL.
        "SELECT 'accounts' AS t, id, owner, code, amount FROM accounts WHERE owner IS NOT NULL "
            + "UNION ALL SELECT '\(secondTable)', id, owner, code, amount FROM \(secondTable) WHERE owner IS NOT NULL "
            + "ORDER BY t, id"
    }

    static func dump(_ rows: [Row]) throws -> [String] {
        try rows.map { row in
            let (table, owner, code): (String, String?, String?) = (try row.get(0), try row.get(2), try row.get(3))
            let (id, amount): (Int64, Int64) = (try row.get(1), try row.get(4))
            return "\(table) \(id) \(owner ?? "NULL") \(code ?? "NULL") \(amount)"
        }
    }

    // MARK: The run

    func open() throws -> Database {
        let database = try Database(path: target, key: scenario.targetKey, configuration: scenario.configuration)
        if scenario.isBuilt { try database.buildsAllTables() }
        if scenario.isSameFile || Files.exists(source) || scenario.deletesFile { try addMigrations(database) }
        return database
    }

    /// Says the migrations, as the application does at each launch. Tables that have returned to their sources begin to
    /// move again.
    func addMigrations(_ database: Database) throws {
        if scenario.hasSeveralSources {
            try database.addMigration(source: .file(source)) {
                if $0.name == "accounts" { $0.sourceTable = "older_accounts" }
            }
        }
        if scenario == .chain {
            // When the table in the middle has moved on and is dropped, nothing within the file tells of that.
            try database.addMigration(source: .sameDatabase, allowsNoTables: true) {
                if $0.name == "middle_accounts" { $0.sourceTable = "old_accounts" }
            }
            if try database.readMigrationProgress().tables.count == 1 {
                try database.stepMigration(rows: Self.rowsPerStep)
            }
        }
        if scenario.isChainOfFiles { try addMigrationOfMiddle(database) }
        try addMigration(database)
    }

    /// Does what a part of the program does that still opens the file in the middle, with a first step there.
    private func addMigrationOfMiddle(_ database: Database) throws {
        let connection = try Database(path: middle, key: scenario.sourceKey, configuration: scenario.configuration)
        defer { connection.close() }
        try connection.addMigration(source: .file(source, key: scenario.sourceKey), allowsNoTables: true) {
            if $0.name == "middle_accounts" { $0.sourceTable = "old_accounts" }
        }
        if try database.readMigrationProgress().tables.isEmpty { try connection.stepMigration(rows: Self.rowsPerStep) }
        try database.addMigration(source: .file(middle, key: scenario.sourceKey)) {
            if $0.name == "accounts" { $0.sourceTable = "middle_accounts" }
        }
    }

    private func addMigration(_ database: Database) throws {
        try database.addMigration(
            source: scenario.isSameFile ? .sameDatabase : .file(source, key: scenario.sourceKey),
            retirement: scenario.retirement
        ) { [scenario] table in
            switch table.name {
            case "accounts":
                if scenario.isChainOfFiles { return }
                table.sourceTable = scenario == .chain ? "middle_accounts" : "old_accounts"
                if scenario == .split { table.condition = "id <= 160" }
                if scenario == .mapped {
                    table.columns["owner"] = .column("holder")
                    table.columns["amount"] = .expression("hundredths / 100")
                }
            case "notes":
                table.sourceTable = "old_notes"
                if scenario == .setAside { table.refusedRows = .setAside }
            case "closed":
                table.sourceTable = "old_accounts"
                table.condition = "id > 160"
            default: break
            }
        }
    }

    /// Opens the database, runs the transactions after the first `done`, and moves everything.
    func run(after done: Int = 0) throws {
        let database = try open()
        for (number, transaction) in transactions.enumerated().dropFirst(done) {
            try step(database, before: number)
            try transaction.run(on: database)
            Files.mark(committed)
        }
        try finish(database)
        database.close()
    }

    private func step(_ database: Database, before number: Int) throws {
        // This is late enough for no table to have returned before the last transaction.
        if scenario.isCancelled, number == 16 { try database.cancelMigration() }
        try database.stepMigration(rows: Self.rowsPerStep)
    }

    func finish(_ database: Database) throws {
        for _ in 0..<1000 where try !database.stepMigration().isFinished {}
        try #require(database.isMigrated, "the migration does not come to its end")
    }

    // MARK: After

    /// Checks what a process that died has left behind. Then goes on to the end, and checks that as well.
    ///
    /// - Parameter mostLost: How many of the last transactions may be lost, as after a loss of power.
    func check(_ expected: [[String]], mostLost: Int = 0, _ comment: Comment) throws {
        let reported = Files.size(committed)
        let database = try open()
        let found = try Self.dump(database.fetchAll(dumpSQL))
        let allowed = Self.oldest(expected, reported, mostLost)...min(reported + 1, expected.count - 1)
        // Not every transaction changes something. So the newest state that fits is taken for the present one.
        guard let done = allowed.last(where: { expected[$0] == found }) else {
            let nearest = expected[min(reported + 1, expected.count - 1)]
            Issue.record("\(comment): after \(reported) transactions, \(Self.difference(found, nearest))")
            return
        }
        #expect(try Set(found).count == database.fetchValue(Int.self, countSQL), comment)
        for (number, transaction) in transactions.enumerated().dropFirst(done) {
            try step(database, before: number)
            // A process that dies again and again has gone on returning rows: a table may be empty by now.
            if scenario.isCancelled { try addMigrations(database) }
            try transaction.run(on: database)
        }
        try finish(database)
        if scenario.isCancelled {
            try addMigrations(database)
            try expectRows(expected.last ?? [], database, "\(comment), begun again")
            try finish(database)
        }
        try expectRows(expected.last ?? [], database, "\(comment), in the end")
        database.close()
        for problem in try problemsOfFiles(expected.last ?? []) { Issue.record("\(comment): \(problem)") }
    }

    /// The number of the oldest state that may be found, if `mostLost` transactions may be lost. A transaction that
    /// changes nothing cannot be lost.
    private static func oldest(_ states: [[String]], _ reported: Int, _ mostLost: Int) -> Int {
        var (oldest, lost) = (reported, 0)
        while lost < mostLost, oldest > 0 {
            oldest -= 1
            if states[oldest] != states[oldest + 1] { lost += 1 }
        }
        return oldest
    }

    private func expectRows(_ expected: [String], _ database: Database, _ comment: Comment) throws {
        let found = try Self.dump(database.fetchAll(dumpSQL))
        if found != expected { Issue.record("\(comment): \(Self.difference(found, expected))") }
    }

    private static func difference(_ found: [String], _ expected: [String]) -> String {
        let surplus = Set(found).subtracting(expected).sorted()
        let missing = Set(expected).subtracting(found).sorted()
        return "found \(found.count) rows; \(surplus.count) surplus \(surplus.prefix(5)), "
            + "\(missing.count) missing \(missing.prefix(5))"
    }

    private var countSQL: String {
        "SELECT (SELECT count(*) FROM accounts WHERE owner IS NOT NULL) "
            + "+ (SELECT count(*) FROM \(secondTable) WHERE owner IS NOT NULL)"
    }

    /// What is wrong with the files when all rows have moved, looked at without the engine.
    ///
    /// - Parameter mayBeUnfenced: Whether the source may have been one that cannot be written, so that its claim is in
    ///   the target.
    func problemsOfFiles(_ expected: [String], mayBeUnfenced: Bool = false) throws -> [String] {
        var problems: [String] = []
        func expect(_ isTrue: Bool, _ problem: String) { if !isTrue { problems.append(problem) } }
        let plain = try Connection(path: target, options: OpenOptions(key: scenario.targetKey))
        defer { plain.close() }
        func names(like pattern: String) throws -> [String] {
            try plain.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE '\(pattern)'").map { try $0.get(0) }
        }
        expect(try Self.dump(plain.fetchAll(dumpSQL)) == expected, "the target has other rows in the end")
        expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok", "the target is damaged")
        let own = try names(like: "%midstream%").filter { !mayBeUnfenced || $0 != "midstream_unfenced_claims" }
        expect(own == (scenario == .setAside ? ["midstream_refused_notes"] : []), "the target has \(own)")
        if scenario == .setAside {
            let ids = try plain.fetchAll("SELECT midstream_rowid FROM midstream_refused_notes ORDER BY 1")
                .map { try $0.get(0, as: Int.self) }
            expect(ids == Array(Self.refused), "set aside were \(ids)")
        }
        switch scenario {
        case .sameFile, .chain, .builtFull:
            expect(try names(like: "old%").isEmpty && names(like: "middle%").isEmpty, "the source stayed")
        case .deleteFile, .deleteFileFull:
            for suffix in ["", "-wal", "-shm"] { expect(!Files.exists(source + suffix), "source\(suffix) stayed") }
        default:
            let old = try Connection(path: source, options: OpenOptions(key: scenario.sourceKey))
            defer { old.close() }
            expect(try old.fetchValue(String.self, "PRAGMA integrity_check") == "ok", "the source is damaged")
            let type = try old.fetchValue(String.self, "SELECT type FROM sqlite_master WHERE name = 'old_accounts'")
            expect(type == (scenario == .keep ? "table" : "view"), "in the source's place is \(type ?? "nothing")")
            if scenario.isChainOfFiles { problems += try problemsOfMiddle() }
        }
        return problems
    }

    private func problemsOfMiddle() throws -> [String] {
        let connection = try Connection(path: middle, options: OpenOptions(key: scenario.sourceKey))
        defer { connection.close() }
        let integrity = try connection.fetchValue(String.self, "PRAGMA integrity_check")
        let left = try connection.fetchAll(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('midstream_claims', 'sqlite_sequence')"
        )
        return (integrity == "ok" ? [] : ["the middle is damaged"])
            + (left.isEmpty ? [] : ["the middle has \(left.map(\.values))"])
    }
}
