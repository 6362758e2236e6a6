import Midstream
import SQLiteConnection
import Synchronization
import Testing

/// A source with damaged pages: no other row is lost, and Midstream tells which rows cannot be read.
@Suite struct DamagedSourceTests {
    private let folder = TemporaryFolder()
    private var source: String { folder.file("old.db") }
    private var target: String { folder.file("new.db") }

    private static let pageSize = 1024
    private static let rows: Int64 = 3000
    private static let schema = "(id INTEGER PRIMARY KEY, text TEXT)"
    /// A row of several pages.
    private static let longRow: Int64 = 1700

    private func begin(
        _ policy: UnreadableRowPolicy,
        _ verification: MigrationVerification = .batches
    ) throws -> Database {
        let database = try Database(path: target)
        try database.execute("CREATE TABLE IF NOT EXISTS t\(Self.schema)")
        try database.addMigration(source: .file(source)) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "s"
            table.unreadableRows = policy
            table.verification = verification
        }
        return database
    }

    /// Makes the source, begins to move it, and closes all connections, so that no cache has the pages that are then
    /// damaged.
    private func prepare(_ verification: MigrationVerification = .batches) throws {
        let old = try Connection(path: source)
        try old.execute("PRAGMA page_size = \(Self.pageSize)")
        try old.execute("CREATE TABLE s\(Self.schema)")
        try old.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO s SELECT i, 'row ' || i || ' ' || hex(zeroblob(CASE i WHEN \(Self.longRow) THEN 3000 ELSE 40 END)) FROM n
            """
        )
        old.close()
        try begin(.stop, verification).close()
        let connection = try Connection(path: source)
        _ = try connection.checkpoint(mode: .truncate)
        connection.close()
    }

    /// What is damaged.
    enum Damage: String, CaseIterable {
        case leaf, firstLeaf, lastLeaf, twoLeaves, interior, overflow
    }

    /// Overwrites pages.
    ///
    /// - Returns: The rows that cannot be read.
    private func inflict(_ damage: Damage) throws -> Set<Int64> {
        let file = DamagedPages(path: source, pageSize: Self.pageSize)
        var pages: [Int]
        var lost: Set<Int64> = []
        switch damage {
        case .leaf: pages = [file.leaf(of: 1000)]
        case .firstLeaf: pages = [file.leaf(of: 1)]
        case .lastLeaf: pages = [file.leaf(of: Self.rows)]
        case .twoLeaves:
            let first = file.leaf(of: 1000)
            let between = file.leaf(of: try #require(file.rows(first).max()) + 1)
            pages = [first, file.leaf(of: try #require(file.rows(between).max()) + 1)]
        case .interior:
            let connection = try Connection(path: source, options: OpenOptions(access: .readOnly))
            let root: Int? = try connection.fetchValue("SELECT rootpage FROM sqlite_master WHERE name = 's'")
            connection.close()
            // The second interior page below the root.
            let interior = file.all.filter { file.kind($0) == .tableInterior && $0 != (root ?? 0) - 1 }
            pages = [try #require(interior.dropFirst().first)]
            lost = Set(file.children(of: pages[0]).flatMap(file.rows))
        case .overflow:
            pages = [try #require(file.overflow)]
            lost = [Self.longRow]
        }
        if lost.isEmpty { lost = Set(pages.flatMap(file.rows)) }
        #expect(file.overwrite(pages))
        return lost
    }

    private func steps(_ database: Database) throws -> MigrationError? {
        do {
            for _ in 0..<10_000 where try database.stepMigration().isFinished { return nil }
        } catch let error as MigrationError {
            return error
        }
        throw MigrationStalled()
    }

    @Test(arguments: Damage.allCases) func theRowsBeforeItMoveAndTheErrorNamesIt(_ damage: Damage) throws {
        try prepare()
        let lost = try inflict(damage)
        let first = try #require(lost.min())
        let database = try begin(.stop)
        for _ in 0..<2 {
            let error = try #require(try steps(database))
            #expect(error.code == .unreadableRows && error.table == "t", "\(error)")
            guard case .rowIDs(let rowIDs)? = error.unreadableKeys else { throw error }
            #expect(rowIDs.lowerBound <= first && rowIDs.contains(first))
            #expect(rowIDs.lowerBound == first || damage == .firstLeaf)
            #expect(damage == .lastLeaf ? rowIDs.upperBound == .max : lost.contains(rowIDs.upperBound))
            #expect(try MovingFixture.count("t", in: target) == first - 1)
        }
        // Other rows are read and written as before.
        for row in [1, 600, 2500] as [Int64] where !lost.contains(row) {
            #expect(try database.fetchValue(Int64.self, "SELECT id FROM t WHERE id = ?", [row]) == row)
            try database.execute("UPDATE t SET text = text || '' WHERE id = ?", [row])
        }
    }

    /// Rows that moved beside the damage are in no checksum.
    @Test func aSourceThatIsRestoredMovesToTheEnd() throws {
        try prepare(.complete)
        let sound = folder.file("sound.db")
        Files.copyDatabase(source, to: sound)
        _ = try inflict(.leaf)
        let database = try begin(.stop, .complete)
        #expect(try steps(database)?.code == .unreadableRows)
        database.close()
        Files.removeDatabase(source)
        Files.copyDatabase(sound, to: source)
        let restored = try begin(.stop, .complete)
        #expect(try steps(restored) == nil)
        #expect(try restored.fetchValue(Int64.self, "SELECT count(*) FROM t") == Self.rows)
    }

    @Test(arguments: Damage.allCases) func theRestMovesIfToldTo(_ damage: Damage) throws {
        try prepare()
        let events = Mutex<[ClosedRange<Int64>]>([])
        var database = try begin(.stop)
        // Rows that statements have brought over are not lost.
        let rescued: Set<Int64> = damage == .overflow ? [] : [1003]
        if !rescued.isEmpty { try database.execute("UPDATE t SET text = 'rescued' WHERE id = 1003") }
        database.close()
        let lost = try inflict(damage).subtracting(rescued)
        database = try begin(.skip)
        database.onMigrated { event in
            if case .rowsSkipped(_, .rowIDs(let rowIDs)) = event { events.withLock { $0.append(rowIDs) } }
        }
        #expect(try steps(database) == nil)
        let wanted = (1...Self.rows).filter { !lost.contains($0) }
        let found = try database.fetchAll("SELECT id FROM t ORDER BY id").map { try $0.get(0, as: Int64.self) }
        #expect(found == wanted, "\(Set(wanted).symmetricDifference(found).sorted())")
        #expect(
            try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE text LIKE 'row ' || id || ' 0%'") == wanted
                .count - rescued.count
        )
        let told = try database.fetchAll("SELECT first_rowid, last_rowid FROM midstream_unreadable_t ORDER BY 1")
            .map { try $0.get(0, as: Int64.self)...$0.get(1, as: Int64.self) }
        #expect(told == events.withLock { $0 })
        #expect(lost.allSatisfy { row in told.contains { $0.contains(row) } })
        #expect(wanted.allSatisfy { row in rescued.contains(row) || !told.contains { $0.contains(row) } })
        database.close()
        // Rows that could not be read stay in the source.
        let old = try Connection(path: source, options: OpenOptions(access: .readOnly))
        #expect(try old.fetchValue(String.self, "SELECT type FROM sqlite_master WHERE name = 's'") == "table")
        old.close()
    }

    /// The database is open. The next step looks at the file that was put in place of the damaged one.
    @Test(arguments: [false, true], [false, true])
    func aFileThatIsRestoredIsLookedAtAnew(_ isVacuumed: Bool, _ changesSchema: Bool) throws {
        let old = try Connection(path: source)
        try old.execute("PRAGMA page_size = \(Self.pageSize)")
        try old.execute("CREATE TABLE s(k INTEGER, text TEXT)")
        try old.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
            INSERT INTO s SELECT i, 'row ' || i || ' ' || hex(zeroblob(40)) FROM n
            """
        )
        try old.execute("DELETE FROM s WHERE k > 1500 AND k % 3 = 0")
        let rows = try old.fetchValue(Int64.self, "SELECT count(*) FROM s")
        old.close()
        func begin() throws -> Database {
            let database = try Database(path: target)
            try database.execute("CREATE TABLE IF NOT EXISTS s(k INTEGER, text TEXT)")
            try database.addMigration(source: .file(source), retirement: .keep) {
                if $0.name == "s" { $0.sourceTable = "s" }
            }
            return database
        }
        let first = try begin()
        try first.stepMigration(rows: 300)
        try first.execute("UPDATE s SET text = 'mine' WHERE k IN (1601, 2501)")
        first.close()
        let connection = try Connection(path: source)
        _ = try connection.checkpoint(mode: .truncate)
        connection.close()
        let backup = folder.file("backup.db")
        Files.copy(source, to: backup)
        if isVacuumed {
            let copy = try Connection(path: backup)
            try copy.vacuumAllTheSame()
            copy.close()
        }
        let file = DamagedPages(path: source, pageSize: Self.pageSize)
        #expect(file.overwrite([file.leaf(of: 1000)]))
        let database = try begin()
        #expect(try steps(database)?.code == .unreadableRows)
        let moved = try MovingFixture.count("s", in: target)

        Files.removeDatabase(source)
        Files.moveDatabase(backup, to: source)
        if changesSchema { try Connection(path: target).execute("CREATE TABLE unrelated(x)") }
        let error = try steps(database)
        if isVacuumed {
            #expect(error?.code == .sourceChanged, "\(String(describing: error))")
            #expect(try MovingFixture.count("s", in: target) == moved)
            return
        }
        #expect(error == nil, "\(String(describing: error))")
        let all = "SELECT count(*), count(DISTINCT k), sum(text = 'mine') FROM s"
        #expect(texts(try database.fetchAll(all)) == ["\(rows ?? 0)|\(rows ?? 0)|2"])
    }
}
