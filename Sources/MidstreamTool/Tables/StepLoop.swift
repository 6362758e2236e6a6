internal import Midstream

/// Makes steps until everything has moved, or returned, or a signal comes.
struct StepLoop {
    let database: Database
    let signals: SignalWatch
    /// The time that a step may take.
    var budget: Duration
    /// The time from the beginning of a step to that of the next; zero for none between them.
    var interval: Duration = .zero
    /// The tables that steps are made of, in turn; none for steps of all.
    var tables: [String] = []

    /// How long a step that could do nothing is waited after.
    private static let patience = Duration.milliseconds(5)

    /// - Parameters:
    ///   - isOver: Whether a step was the last one.
    ///   - onStep: Called with the progress after each step.
    /// - Returns: The signal that ended it; `nil` when it is over.
    /// - Throws: Also when what is left is another file's to move.
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
