import Midstream
import SQLText
import SQLiteConnection
import Synchronization

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A target whose tables move into it, from a source that the beginning of a script has made, and from further ones.
final class MovingFiles {
    /// As many sources as may be attached at once, less some that the script may attach.
    private static let mostSources = 8

    private let folder: TemporaryFolder
    private let mode: LogicMode
    let database: Database
    /// A native connection to the target, which takes the rows of tables that do not move out into a new source.
    private let outside: Connection
    private let events = Events()
    /// How often tables were moved out again.
    private(set) var rounds = 0
    /// How many tables began to move, each time counted.
    private(set) var tablesMoved = 0
    /// How often tables should have been moved out again, and too many sources were open.
    private(set) var roundsLeftOut = 0

    /// What the database has told.
    private final class Events: Sendable {
        /// Whether tables may have come, or ended their move, since it was looked last.
        let isDue = Mutex(true)
        let drains = Mutex(0)
    }

    /// Whether a migration takes tables.
    private final class Filter: Sendable {
        let isOpen = Mutex(true)
    }

    /// How many statements had tables drained.
    var drainCount: Int { events.drains.withLock { $0 } }

    private var targetPath: String { folder.file("new.db") }

    /// - Parameter records: What makes the source. They run natively, and NativeRun has judged them.
    init(_ records: some Sequence<LogicRecord>, _ mode: LogicMode) throws {
        self.mode = mode
        folder = TemporaryFolder()
        let old = folder.file("old.db")
        let source = try Self.native(old)
        for record in records { _ = try source.answer(record) }
        let names = Set(try TableCopy.movableTables(source))
        let target = try Self.native(folder.file("new.db"))
        try TableCopy.copySchema(["table"], from: source, to: target)
        try target.attach(old, as: "old")
        for table in try TableCopy.tables(source) where !names.contains(table) {
            try TableCopy.copyRows(table, from: "old", to: "main", target)
        }
        try target.execute("DETACH old")
        try TableCopy.copySchema(["index", "view", "trigger"], from: source, to: target)
        source.close()
        target.close()
        database = try Database(path: folder.file("new.db"))
        outside = try Self.native(folder.file("new.db"))
        try outside.configure(.triggers, false)
        database.onMigrated { [events] event in
            events.isDue.withLock { $0 = true }
            if case .drained = event { events.drains.withLock { $0 += 1 } }
        }
        try begin(names, from: old, .drop)
    }

    private static func native(_ path: String) throws -> Connection {
        let connection = try Connection(path: path)
        try connection.execute("PRAGMA synchronous = OFF")
        connection.setBusyTimeout(milliseconds: 5000)
        return connection
    }

    private func begin(_ names: Set<String>, from source: String, _ retirement: SourceRetirement) throws {
        // The filter stays, and would be asked about tables of these names that are created later.
        let filter = Filter()
        try database.addMigration(source: .file(source), retirement: retirement) { table in
            if filter.isOpen.withLock({ $0 }), names.contains(table.name) { table.sourceTable = table.name }
            table.firesTriggers = false
        }
        if mode.movesAgain { filter.isOpen.withLock { $0 = false } }
        tablesMoved += names.count
        guard case .frozen = mode.movement else { return }
        for table in try database.stepMigration(rows: 0).tables where names.contains(table.name) {
            let rows = mode.rowsMoved(of: table.totalRows ?? 0)
            if rows > 0, table.phase == .copying { try database.stepMigration(rows: rows, of: table.name) }
        }
    }

    // MARK: Between records

    /// What is due before a record. No transaction is open.
    ///
    /// - Parameter hidden: Names of TEMP objects, in lower case. Tables that they hide stay as they are.
    func prepare(for record: LogicRecord, hidden: () throws -> Set<String>) throws {
        if case .stepping(let rows) = mode.movement {
            let progress = try database.stepMigration(rows: rows)
            if progress.tables.contains(where: { $0.phase != .copying }) { noteChange() }
        }
        guard mode.movesAgain, events.isDue.withLock({ $0 }), !LogicStart.isSetUp(record, drops: true) else { return }
        events.isDue.withLock { $0 = false }
        try moveAgain(hidden())
    }

    /// Notes that there may be tables that do not move.
    func noteChange() {
        events.isDue.withLock { $0 = true }
    }

    private func moveAgain(_ hidden: Set<String>) throws {
        let moving = try retireMoved()
        let others = moving.tables.union(hidden)
        let names = try TableCopy.movableTables(outside).filter { !others.contains(SQLIdentifier.lowercased($0)) }
        let isWorthIt = try names.contains {
            try outside.fetchOne("SELECT 1 FROM main.\(SQLIdentifier.quoted($0)) LIMIT 1") != nil
        }
        guard isWorthIt else { return }
        guard moving.sources < Self.mostSources else {
            roundsLeftOut += 1
            return
        }
        rounds += 1
        let path = folder.file("round\(rounds).db")
        let source = try Self.native(path)
        try TableCopy.copySchema(["table", "index"], of: Set(names), from: outside, to: source)
        source.close()
        try outside.attach(path, as: "round")
        try outside.execute("BEGIN IMMEDIATE")
        for name in names {
            try TableCopy.copyRows(name, from: "main", to: "round", outside)
            try outside.execute("DELETE FROM main.\(SQLIdentifier.quoted(name))")
        }
        try outside.execute("COMMIT")
        try outside.execute("DETACH round")
        try begin(Set(names), from: path, .deleteFileWhenEmpty)
    }

    /// Retires the sources of tables that have moved, so that they can move again.
    ///
    /// - Returns: The tables that move, in lower case, and how many sources they have.
    private func retireMoved() throws -> (tables: Set<String>, sources: Int) {
        var progress = try database.readMigrationProgress()
        for table in progress.tables where table.phase != .copying {
            for _ in 0..<10 where progress.tables.contains(where: { $0.name == table.name && $0.phase != .done }) {
                progress = try database.stepMigration(rows: 0, of: table.name)
            }
        }
        let moving = progress.tables.filter { $0.phase != .done }
        return (Set(moving.map { SQLIdentifier.lowercased($0.name) }), Set(moving.map(\.sourcePath)).count)
    }

    // MARK: In the end

    /// Moves all that is left, and reads what the target holds then.
    func finish() throws -> [String] {
        var steps = 0
        while try !database.stepMigration(rows: 1000).isFinished {
            steps += 1
            if steps > 1000 { throw MigrationStalled() }
        }
        database.close()
        let check: String? = try outside.fetchValue("PRAGMA main.integrity_check")
        let contents = try LogicContents.read(outside)
        outside.close()
        return check == "ok" ? contents : ["integrity check: \(check ?? "nothing")"]
    }
}
