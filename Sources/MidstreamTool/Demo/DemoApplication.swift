internal import Dispatch
internal import Midstream
internal import SQLiteConnection
internal import Synchronization

/// The application: threads that read and write one database until they are told to stop.
final class DemoApplication: Sendable {
    static let readers = 3
    static let writers = 2

    /// The time between two transactions of a thread, in milliseconds.
    private static let pause: UInt32 = 3
    /// How long a long transaction lasts, in milliseconds.
    private static let longRead: UInt32 = 150

    private let database: Database
    private let scenario: any DemoScenario
    private let log: DemoLog
    private let oracle: DemoOracle
    private let stopped = Flag()
    private let latencies = Mutex(Latencies())
    private let threads = DispatchGroup()

    init(_ database: Database, _ scenario: any DemoScenario, _ log: DemoLog, _ oracle: DemoOracle) {
        self.database = database
        self.scenario = scenario
        self.log = log
        self.oracle = oracle
    }

    func start(seed: UInt64) {
        for number in 0..<Self.readers { startThread("reader", seed &+ UInt64(number)) { try self.read(&$0) } }
        for number in 0..<Self.writers { startThread("writer", seed &+ 100 &+ UInt64(number)) { try self.write(&$0) } }
        startThread("long reader", seed) { _ in try self.readForLong() }
    }

    /// Ends all threads.
    ///
    /// - Returns: How long their transactions took.
    func stop() -> Latencies {
        stopped.raise()
        threads.wait()
        return latencies.withLock(\.self)
    }

    private func startThread(
        _ name: String,
        _ seed: UInt64,
        _ body: @escaping @Sendable (inout RandomNumbers) throws -> Void
    ) {
        DispatchQueue(label: "midstream.demo.\(name)").async(group: threads) { @Sendable [self] in
            var random = RandomNumbers(seed: seed)
            while !stopped.isRaised {
                do {
                    try body(&random)
                } catch {
                    oracle.note("\(name): \(message(of: error))")
                }
                SystemCalls.sleep(milliseconds: Self.pause)
            }
        }
    }

    // MARK: Transactions

    private func read(_ random: inout RandomNumbers) throws {
        let statement = scenario.read(&random)
        let reader = log.beginReading()
        var outcomes: [DemoOutcome] = []
        var turn: Int64?
        defer { log.endReading(reader, turn: turn, outcomes) }
        let clock = ContinuousClock()
        let start = clock.now
        turn = try database.read { access in
            outcomes.append(try Self.run(statement, access))
            return try access.fetchValue(Int64.self, DemoClock.read)
        }
        let duration = clock.now - start
        latencies.withLock { $0.addRead(duration) }
    }

    /// Reads the report and the invariant twice in one transaction, while others write and rows move.
    private func readForLong() throws {
        let reader = log.beginReading()
        var outcomes: [DemoOutcome] = []
        var turn: Int64?
        defer { log.endReading(reader, turn: turn, outcomes) }
        turn = try database.read { access in
            let turn = try access.fetchValue(Int64.self, DemoClock.read)
            for round in 0..<2 {
                if round > 0 { SystemCalls.sleep(milliseconds: Self.longRead) }
                for statement in scenario.report { outcomes.append(try Self.run(statement, access)) }
                let difference = try Self.run(scenario.invariant, access)
                if case .rows(let rows) = difference.result, rows.first?.values != [.integer(0)] {
                    oracle.note("an invariant does not hold: \(scenario.invariant.sql)")
                }
                outcomes.append(difference)
            }
            return turn
        }
    }

    private func write(_ random: inout RandomNumbers) throws {
        let statements = scenario.write(&random)
        let clock = ContinuousClock()
        let start = clock.now
        let (turn, outcomes) = try database.write { access in
            // A read in the writer's turn sees what the transaction has done so far.
            let outcomes = try statements.map { try Self.run($0, access) }
            try access.execute(DemoClock.advance)
            return (try access.fetchValue(Int64.self, DemoClock.read) ?? 0, outcomes)
        }
        let duration = clock.now - start
        log.add(turn: turn, outcomes)
        latencies.withLock { $0.addWrite(duration) }
    }

    private static func run(_ statement: DemoStatement, _ access: DatabaseAccess) throws -> DemoOutcome {
        let result = try DemoResult.of(statement) { sql, arguments in
            try access.fetchAll(sql, arguments)
        } execute: { sql, arguments in
            try access.execute(sql, arguments)
            return (access.changes, access.lastInsertRowID)
        }
        return DemoOutcome(statement: statement, result: result)
    }
}
