import Dispatch
import Midstream
import SQLiteConnection
import Synchronization

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// One process of a round. It ends by SIGKILL, either at a moment that is drawn, or when it has come to its end. So any
/// other end of a process is a failure.
struct RoundProcess {
    let plan: Plan
    let lane: Int
    let generation: Int

    /// What the process does.
    enum Role: CaseIterable {
        /// Makes steps, and reads and writes in between.
        case mover
        /// Makes steps, reads and writes at the same time, on one database.
        case app
        case writer
        case reader
        /// Opens the database, reads or writes, and closes it, all the time.
        case visitor
        /// Runs checkpoints and holds snapshots, with plain SQLite.
        case checkpointer
        /// Cancels the migration.
        case canceller
    }

    /// How long a read, a write or a step may take before this process calls it a deadlock.
    private static let patience: Duration = .seconds(100)

    static func rest(_ microseconds: UInt32) {
        if microseconds > 0 { usleep(microseconds) }
    }

    /// What the threads of the process are doing.
    private final class Pulse: Sendable {
        let isEnding = Atomic<Bool>(false)
        let beats = Mutex<[String: ContinuousClock.Instant]>([:])

        func beat(_ name: String) { beats.withLock { $0[name] = .now } }
        func stop(_ name: String) { beats.withLock { $0[name] = nil } }
        var stuck: String? { beats.withLock { $0.first { .now - $0.value > RoundProcess.patience }?.key } }
    }

    private let pulse = Pulse()

    init(plan: Plan, lane: Int, generation: Int) {
        self.plan = plan
        self.lane = lane
        self.generation = generation
    }

    func run() -> Never {
        let birth = ContinuousClock.now
        var random = plan.generator(lane: lane, generation: generation)
        let life: Int? =
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4: Int.random(in: 0...150, using: &random)
            case 4..<8: Int.random(in: 100...1500, using: &random)
            default: nil
            }
        let role = role(&random)
        watch(life.map { .now + .milliseconds($0) })
        do {
            try work(role, &random)
        } catch {
            let age = ContinuousClock.now - birth
            plan.note("\(role) \(lane).\(generation), after \(age): \(error)")
        }
        end(.ends)
    }

    private func role(_ random: inout SeededGenerator) -> Role {
        if lane < Plan.movers { return .mover }
        if lane == Plan.movers, generation < 2, plan.course != .moves { return .canceller }
        return [.app, .app, .writer, .writer, .reader, .visitor, .visitor, .checkpointer].randomElement(using: &random)
            ?? .reader
    }

    private func end(_ manner: Plan.Count) -> Never {
        if !pulse.isEnding.exchange(true, ordering: .acquiringAndReleasing) {
            plan.count(manner, lane)
            kill(getpid(), SIGKILL)
        }
        while true { sleep(1) }
    }

    /// Kills the process when its time has come, and reports a thread that hangs.
    private func watch(_ death: ContinuousClock.Instant?) {
        let parent = getppid()
        DispatchQueue(label: "watchdog").async { @Sendable [self] in
            while true {
                let left = death.map { $0 - .now } ?? .seconds(1)
                if left <= .zero || getppid() != parent { end(.kills) }
                Self.rest(UInt32(min(left, .milliseconds(100)) / .microseconds(1)))
                if let stuck = pulse.stuck {
                    plan.note("process \(lane).\(generation): \(stuck) hangs")
                    abort()
                }
            }
        }
    }

    // MARK: Work

    private func work(_ role: Role, _ random: inout SeededGenerator) throws {
        pulse.beat("\(role)")
        switch role {
        case .mover:
            let database = try plan.open(knowingOfIt: true)
            var stamp: Int64?
            try loop("mover") {
                try step(database, &random)
                if Int.random(in: 0..<3, using: &random) == 0 { try write(database, &stamp, &random) }
                if Int.random(in: 0..<3, using: &random) == 0 { try read(database, &random) }
            }
        case .app: try runApp()
        case .writer:
            let database = try plan.open(knowingOfIt: generation.isMultiple(of: 2))
            var stamp: Int64?
            try loop("writer") { try write(database, &stamp, &random) }
        case .reader:
            let database = try plan.open(knowingOfIt: generation.isMultiple(of: 2))
            try loop("reader") { try read(database, &random) }
        case .visitor:
            try loop("visitor") {
                let database = try plan.open(knowingOfIt: Bool.random(using: &random))
                var stamp: Int64?
                if Bool.random(using: &random) { try read(database, &random) }
                if Bool.random(using: &random) { try write(database, &stamp, &random) }
                if Bool.random(using: &random) { try step(database, &random) }
                database.close()
            }
        case .checkpointer: try loop("checkpointer") { try checkpoint(&random) }
        case .canceller: try cancel(&random)
        }
        pulse.stop("\(role)")
    }

    private func loop(_ name: String, _ body: () throws -> Void) throws {
        var more = 3
        while !plan.isOver || more > 0 {
            if plan.isOver { more -= 1 }
            pulse.beat(name)
            try body()
        }
        pulse.stop(name)
    }

    /// Steps, reads and writes at the same time, on one database.
    private func runApp() throws {
        let database = try plan.open(knowingOfIt: true)
        let group = DispatchGroup()
        for (number, name) in ["reader", "writer", "stepper", "second reader"].enumerated() {
            DispatchQueue(label: name).async(group: group) { @Sendable [self] in
                var random = plan.generator(lane: lane + 10 * (number + 1), generation: generation)
                var stamp: Int64?
                do {
                    try loop(name) {
                        switch name {
                        case "writer": try write(database, &stamp, &random)
                        case "stepper": try step(database, &random)
                        default: try read(database, &random)
                        }
                    }
                } catch {
                    pulse.stop(name)
                    plan.note("app \(lane).\(generation), \(name): \(error)")
                }
            }
        }
        pulse.stop("app")
        group.wait()
    }

    private func step(_ database: Database, _ random: inout SeededGenerator) throws {
        let progress =
            if Bool.random(using: &random) {
                try database.stepMigration(rows: Int64.random(in: 1...plan.rowsPerStep, using: &random))
            } else {
                try database.stepMigration(budget: .microseconds(Int.random(in: 1...5000, using: &random)))
            }
        plan.count(.steps, lane)
        Self.rest(UInt32.random(in: 0...plan.rest, using: &random))
        guard progress.isFinished, !plan.isOver else { return }
        if plan.course == .isBegunAnew, try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 0 {
            do {
                return try plan.addMigration(database)
            } catch let error as MigrationError where error.message.contains("is being moved back") {
                // Other processes have begun the migration since, and cancelled it.
                return
            }
        }
        plan.end()
    }

    private func write(_ database: Database, _ stamp: inout Int64?, _ random: inout SeededGenerator) throws {
        try RoundTransaction(plan: plan, lane: lane).run(on: database, stamp: &stamp, &random)
        // A writer without a pause would keep out the steps of other processes, which wait only a few milliseconds.
        Self.rest(UInt32.random(in: 0...max(4000, plan.rest / 4), using: &random))
    }

    private func read(_ database: Database, _ random: inout SeededGenerator) throws {
        try RoundReader(plan: plan, lane: lane).read(database, &random)
    }

    private func checkpoint(_ random: inout SeededGenerator) throws {
        let isTarget = Bool.random(using: &random)
        guard Files.exists(isTarget ? plan.target : plan.source) else { return }
        let connection: Connection
        do {
            connection = try Connection(
                path: isTarget ? plan.target : plan.source,
                options: OpenOptions(access: .readWrite)
            )
        } catch {
            // Another process may have deleted a source just now.
            guard !isTarget else { throw error }
            return
        }
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: Bool.random(using: &random) ? 0 : 100)
        let modes: [CheckpointMode] = [.passive, .full, .restart, .truncate]
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            pulse.beat("checkpointer")
            do {
                _ = try connection.fetchValue(Int64.self, "SELECT count(*) FROM sqlite_master")
                _ = try connection.checkpoint(mode: modes.randomElement(using: &random) ?? .passive)
                try connection.execute("BEGIN")
                _ = try connection.fetchValue(Int64.self, "SELECT count(*) FROM sqlite_master")
                Self.rest(UInt32.random(in: 0...50_000, using: &random))
                try connection.execute("COMMIT")
            } catch {
                if connection.isInTransaction { try? connection.execute("ROLLBACK") }
                guard ResultCode.busy ~= error.code || ResultCode.locked ~= error.code || !isTarget else { throw error }
            }
        }
    }

    private func cancel(_ random: inout SeededGenerator) throws {
        let database = try plan.open()
        Self.rest(UInt32.random(in: 0...400_000, using: &random))
        do {
            try database.cancelMigration()
            // The migration may have been over before, or may be over by now.
            if try database.readMigrationProgress().tables.contains(where: \.isReturning) {
                plan.count(.cancellations, lane)
            }
        } catch let error as MigrationError {
            guard error.code == .unsupported || error.code == .misuse else { throw error }
        }
    }
}
