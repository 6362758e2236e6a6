internal import Midstream

/// Makes steps until everything has moved or returned, or until a signal comes.
struct StepLoop {
    let database: Database
    let signals: SignalWatch
    /// The time that a step may take.
    var budget: Duration
    /// The time from the beginning of a step to the beginning of the next; zero for no pause between steps.
    var interval: Duration = .zero
    /// The tables for which steps are made, in turn; empty for steps of all tables.
    var tables: [String] = []

    /// How long to wait after a step that could do nothing.
    private static let patience = Duration.milliseconds(5)

    /// - Parameters:
    ///   - isOver: Whether a step was the last one.
    ///   - onStep: Called with the progress after each step.
    /// - Returns: The signal that ended the loop; `nil` if the last step has been made.
    /// - Throws: Errors of steps; also an error if only another file can move what is left.
    func run(until isOver: (MigrationProgress) -> Bool = { $0.isFinished }, _ onStep: (MigrationProgress) -> Void)
        throws -> Int32?
    {
        let clock = ContinuousClock()
        var turn = 0
        while true {
            if let signal = signals.signalReceived { return signal }
            let start = clock.now
            let table = tables.isEmpty ? nil : tables[turn % tables.count]
            turn += 1
            let progress = try database.stepMigration(budget: budget, of: table)
            onStep(progress)
            if isOver(progress) { return nil }
            try checkOwn(progress)
            let isIdle = progress.outcome != .worked
            signals.sleep(max(interval - (clock.now - start), isIdle ? Self.patience : .zero))
        }
    }

    private func checkOwn(_ progress: MigrationProgress) throws {
        let left = progress.tables.filter { $0.phase != .done }
        guard let first = left.first, let destination = first.movesOnTo, left.allSatisfy({ $0.movesOnTo != nil }) else {
            return
        }
        throw CommandFailure("table \(first.name) moves on to \(destination): go on with the migration of that file")
    }
}
