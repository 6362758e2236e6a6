import Midstream
import SQLiteConnection

/// What one round of the torture is like. The run's seed determines it, so that all processes of the round have the
/// same plan.
///
/// Two tables move, `accounts` and `savings`. Every transaction keeps the difference of the tables' row counts and the
/// sum of all amounts. For each lane, the row of `accounts` with the lane's number counts the lane's transactions in
/// its column `stamp`.
struct Plan: Sendable {
    /// What becomes of the migration.
    enum Course {
        /// The migration goes on to its end.
        case moves
        /// The migration is cancelled, and begun anew when its rows are back.
        case isBegunAnew
        /// The migration is cancelled, and the rows stay in the source.
        case returns
    }

    var seed: UInt64
    var round: Int
    var folder: String
    var course: Course
    var isSameFile: Bool
    var hasWAL: Bool
    var retirement: SourceRetirement
    var rows: Int
    /// The largest number of rows that a step moves, if the step is told how many.
    var rowsPerStep: Int64
    /// The longest time that a process rests after a step or a transaction, in microseconds.
    var rest: UInt32
    /// Whether each process begins the migration as soon as it has started; otherwise the one that made the files
    /// begins it.
    var isBegunByAll: Bool
    /// Whether the tables have rowids.
    var hasRowIDs: Bool

    /// How many processes run at a time.
    static let lanes = 5
    /// How many of the lanes, from the first, make steps.
    static let movers = 2

    init(seed: UInt64, round: Int, folder: String) {
        var random = SeededGenerator(seed: seed &+ UInt64(round) &* 0xd134_2543_de82_ef95)
        self.seed = random.next()
        self.round = round
        self.folder = folder
        course = [.moves, .moves, .isBegunAnew, .returns].randomElement(using: &random) ?? .moves
        isSameFile = Int.random(in: 0..<4, using: &random) == 0
        hasWAL = Int.random(in: 0..<3, using: &random) > 0
        retirement = [.drop, .drop, .deleteFileWhenEmpty, .keep].randomElement(using: &random) ?? .drop
        if isSameFile, retirement == .deleteFileWhenEmpty { retirement = .drop }
        rows = [50, 300, 1500, 4000].randomElement(using: &random) ?? 300
        rowsPerStep = Int64(max(2, rows / Int.random(in: 10...60, using: &random)))
        rest = [0, 2000, 20_000, 60_000].randomElement(using: &random) ?? 0
        isBegunByAll = course == .moves && Bool.random(using: &random)
        // A beginning is short. With few rows and no rests, what follows it is mostly short as well.
        if isBegunByAll, Int.random(in: 0..<4, using: &random) > 0 { (rows, rowsPerStep, rest) = (50, 10, 0) }
        hasRowIDs = Int.random(in: 0..<3, using: &random) > 0
        // With 6000 rows, one table is built beside the live one; with 12,000 rows, both are. With a rollback journal,
        // readers and writers wait for each other, and so many rows would take minutes.
        let built = [6000, 6000, hasWAL ? 12_000 : 6000].randomElement(using: &random) ?? 6000
        if !isBegunByAll, Int.random(in: 0..<3, using: &random) == 0 {
            (rows, rowsPerStep) = (built, Int64(built / Int.random(in: 10...60, using: &random)))
        }
        // Before SQLite 3.22, each lookup by the key of a moving table without rowids reads the whole table.
        if Connection.libraryVersionNumber < 3_022_000, rows > 300 { hasRowIDs = true }
    }

    /// The random numbers of one process.
    func generator(lane: Int, generation: Int) -> SeededGenerator {
        SeededGenerator(seed: seed &+ UInt64(lane * 1_000_003 + generation * 7919))
    }

    var target: String { folder + "/new.db" }
    var source: String { isSameFile ? target : folder + "/old.db" }

    /// The sum of the amounts of all rows.
    var total: Int64 { 3 * Int64(rows) * 100 }
    /// The difference of the two tables' row counts.
    var difference: Int64 { Int64(rows) }

    /// Whether somebody cancels the migration.
    var isCancelled: Bool { course != .moves }

    /// Whether a table may be empty: before it begins to move, and when its rows are back.
    var mayBeEmpty: Bool { course != .moves }

    // MARK: Files

    private static let columns =
        "(id INTEGER PRIMARY KEY, owner TEXT, code TEXT UNIQUE, amount INTEGER NOT NULL, stamp INTEGER NOT NULL)"

    private var options: String { hasRowIDs ? "" : " WITHOUT ROWID" }

    func createFiles() throws {
        let new = try Connection(path: target)
        if hasWAL { try new.execute("PRAGMA journal_mode = WAL") }
        for table in ["accounts", "savings"] {
            try new.execute("CREATE TABLE \(table)\(Self.columns)\(options)")
            try new.execute("CREATE INDEX \(table)_by_owner ON \(table)(owner)")
        }
        new.close()
        let old = try Connection(path: source)
        for (table, count) in [("old_accounts", 2 * rows), ("old_savings", rows)] {
            try old.execute("CREATE TABLE \(table)\(Self.columns)\(options)")
            try old.execute("CREATE INDEX \(table)_by_owner ON \(table)(owner)")
            try old.execute(
                """
                INSERT INTO \(table) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                SELECT i, 'o' || (i % 9), 'c' || i, 100, 0 FROM n
                """
            )
        }
        old.close()
    }

    // MARK: Opening

    func open() throws -> Database {
        var configuration = DatabaseConfiguration()
        configuration.journalMode = .unchanged
        configuration.busyTimeout = .seconds(60)
        configuration.readerCount = 3
        return try Database(path: target, configuration: configuration)
    }

    func addMigration(_ database: Database) throws {
        try database.addMigration(source: isSameFile ? .sameDatabase : .file(source), retirement: retirement) { table in
            if ["accounts", "savings"].contains(table.name) { table.sourceTable = "old_" + table.name }
        }
    }

    /// Opens the target as a program that knows of the migration does, or as a program that only finds the migration.
    func open(knowingOfIt: Bool) throws -> Database {
        let database = try open()
        if knowingOfIt || isBegunByAll, course != .returns { try addMigration(database) }
        return database
    }

    // MARK: What processes tell each other

    /// Whether the migration has ended.
    var isOver: Bool { Files.exists(folder + "/over") }

    func end() { Files.append(".", to: folder + "/over") }

    /// What is counted. Each count has a file, since a process that is killed cannot tell anything any more.
    enum Count: String, CaseIterable {
        case reads, transactions, steps, kills, ends
        /// Cancellations that had rows to bring back.
        case cancellations
        /// Tables whose rows are back at the end.
        case returns
    }

    func count(_ event: Count, _ lane: Int) { Files.append(".", to: file(event, lane)) }
    func count(of event: Count, _ lane: Int) -> Int { Files.size(file(event, lane)) }
    func count(of event: Count) -> Int { (0..<Self.lanes).reduce(0) { $0 + count(of: event, $1) } }
    private func file(_ event: Count, _ lane: Int) -> String { folder + "/\(event.rawValue)-\(lane)" }

    /// How many transactions a writer has reported as committed.
    func committed(_ lane: Int) -> Int64 { Int64(Files.size(folder + "/committed-\(lane)")) }
    func markCommitted(_ lane: Int) { Files.append(".", to: folder + "/committed-\(lane)") }

    func note(_ problem: String) { Files.append(problem + "\n", to: folder + "/problems") }

    var problems: String { Files.text(folder + "/problems") }
}
