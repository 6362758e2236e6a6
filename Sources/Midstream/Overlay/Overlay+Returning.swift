#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

extension Overlay {
    /// The longest time that a writer waits for one stage.
    private static let patience: Duration = .milliseconds(300)

    /// Waits before a write while the last rows of a table return to its source.
    ///
    /// If a row is written after its key was collected and before it has returned, the row stays in the target. An application
    /// that writes all the time would keep some rows there for ever. Within the process, the gate holds writers back during a
    /// step. Between steps, and in other processes, a writer looks at the stored stage, and waits for each stage once: a reader
    /// with an old snapshot may make a stage long.
    func awaitReturn() {
        for table in returning {
            let start = ContinuousClock.now
            while let stage = try? table.integer(table.sql.stageOfLastRows), stage != awaitedStages[table.id] {
                guard .now - start < Self.patience else {
                    awaitedStages[table.id] = stage
                    break
                }
                usleep(1000)
            }
        }
    }
}
