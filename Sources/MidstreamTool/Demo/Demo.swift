internal import Dispatch
internal import Midstream
internal import SQLiteConnection
internal import Synchronization

/// The demonstration: an application whose tables move from one file to another while it runs, beside plain SQLite.
final class Demo {
    struct Phase {
        var name: String
        var latencies: Latencies
        var elapsed: Duration
    }

    private let folder: DemoFolder
    private let output: Output
    private let signals: SignalWatch
    private let clock = ContinuousClock()
    private let scenario: any DemoScenario
    private let log = DemoLog()
    private let oracle: DemoOracle
    private var phases: [Phase] = []
    private var tally: MoveTally?
    private let drained = Counter()

    private static let pace = MigrationPace(budget: .milliseconds(10), interval: .milliseconds(12))
    /// After this time, steps no longer keep to their budget: the machine has little time for them.
    private static let patience = Duration.seconds(15)
    private static let rowsOfLargeStep: Int64 = 3000
    /// How long the application runs before the move, and after it.
    private static let calm = Duration.seconds(2)

    init(_ scenario: any DemoScenario, _ folder: DemoFolder, _ output: Output, _ signals: SignalWatch) {
        self.scenario = scenario
        self.folder = folder
        self.output = output
        self.signals = signals
        oracle = DemoOracle(path: folder.plain, log: log)
    }

    func run() throws -> ExitCode {
        output.line(
            "The application: \(DemoApplication.readers) threads read, \(DemoApplication.writers) write, 1 reads in long "
                + "transactions. Each result is compared with plain SQLite."
        )
        output.flush()
        let comparison = DispatchGroup()
        let failure = Mutex<String?>(nil)
        DispatchQueue(label: "midstream.demo.oracle").async(group: comparison) { @Sendable [oracle] in
            do { try oracle.run() } catch { failure.withLock { $0 = message(of: error) } }
        }
        defer {
            log.close()
            comparison.wait()
        }
        try runBefore()
        let database = try Database(path: folder.new, configuration: Self.configuration)
        try runWhile(database)
        if signals.signalReceived == nil { runAfter(database) }
        database.close()
        log.close()
        comparison.wait()
        if let signal = signals.signalReceived { return .signal(signal) }
        if let failure = failure.withLock(\.self) { oracle.note(failure) }
        return try finish()
    }

    private static var configuration: DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        configuration.readerCount = DemoApplication.readers + 1
        return configuration
    }

    // MARK: Phases

    private func runBefore() throws {
        let database = try Database(path: folder.old, configuration: Self.configuration)
        defer { database.close() }
        run("before", database, seed: 1_000) { signals.sleep(Self.calm) }
    }

    private func runWhile(_ database: Database) throws {
        let request = try MoveRequest(tables: scenario.tables, source: folder.old, target: folder.new)
        try request.begin(in: database)
        let steps = Mutex<[MigrationProgress]>([])
        let failures = Mutex<[String]>([])
        let hasMoved = Flag()
        database.onMigrationProgress { progress in steps.withLock { $0.append(progress) } }
        database.onMigrated { [drained] event in
            switch event {
            case .databaseMoved: hasMoved.raise()
            case .drained: drained.increment()
            case .failed(let error): failures.withLock { $0.append(message(of: error)) }
            default: break
            }
        }
        var tally = MoveTally(try database.readMigrationProgress(), target: folder.new)
        var display = ProgressDisplay(ProgressDisplay.style(isJSON: false), output)
        run("while", database, seed: 2_000) {
            database.startAutoMigration(pace: Self.pace)
            while !hasMoved.isRaised, signals.signalReceived == nil, failures.withLock(\.isEmpty) {
                signals.sleep(.milliseconds(20))
                for progress in steps.withLock({ steps in
                    defer { steps.removeAll() }
                    return steps
                }) { tally.add(progress) }
                display.show(tally)
                if display.elapsed > Self.patience { hurry(database) }
            }
            database.stopAutoMigration()
        }
        for progress in steps.withLock(\.self) { tally.add(progress) }
        display.end()
        self.tally = tally
        if let failure = failures.withLock(\.first) { throw CommandFailure(failure) }
        output.line(
            "new.db: \(NumberText.count(tally.moved, "row")) moved in \(NumberText.seconds(display.elapsed))"
                + (display.elapsed > Self.patience ? "" : ", in steps of 10 ms each 12 ms")
        )
        output.flush()
    }

    /// Makes a large step. Its errors are reported as events.
    private func hurry(_ database: Database) {
        database.stopAutoMigration()
        _ = try? database.stepMigration(rows: Self.rowsOfLargeStep)
    }

    private func runAfter(_ database: Database) {
        run("after", database, seed: 3_000) { signals.sleep(Self.calm) }
    }

    private func run(_ name: String, _ database: Database, seed: UInt64, _ body: () -> Void) {
        let application = DemoApplication(database, scenario, log, oracle)
        let start = clock.now
        application.start(seed: seed)
        body()
        let latencies = application.stop()
        phases.append(Phase(name: name, latencies: latencies, elapsed: clock.now - start))
    }

    // MARK: The end

    private func finish() throws -> ExitCode {
        let final = try FinalComparison(folder.new, folder.plain, tables: scenario.tables)
        for difference in final.differences { oracle.note(difference) }
        let result = oracle.result
        DemoReport(phases: phases, result: result, finalRows: final.rows, drained: drained.count)
            .write(to: output)
        if folder.isKept { output.line("The files are in \(folder.path).") }
        return result.differences == 0 ? .success : .failure
    }
}
