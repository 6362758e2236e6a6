#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

extension Overlay {
    /// The longest that a writer waits for one stage.
    private static let patience: Duration = .milliseconds(300)

    /// Waits before a write while the last rows of a table return to its source.
    ///
    /// A row that is written between the collecting of its key and its return stays in the target, and whoever writes all
    /// the while would keep some there for ever. The gate holds writers of the process back while it steps. Between steps,
    /// and in other processes, they look at the stored stage, and wait for each once: a reader with an old snapshot may
    /// make it long.
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
