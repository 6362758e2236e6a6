/// Kills the process at a chosen write, sync, truncation or deletion of a database's files, for tests of what a crash
/// leaves behind.
///
/// A test that spawns a process for each point, Swift Testing's exit tests for instance, learns whether the application's
/// data are whole wherever it dies:
///
///     let count = 200                              // as many as KillingVFS.operations said after a run that lived
///     for point in 1...count {
///         await #expect(processExitsWith: .signal(SIGKILL)) { [path, point] in
///             try KillingVFS.register()
///             KillingVFS.kill(at: point)
///             try runWhatIsTested(path)
///             KillingVFS.killNow()                 // it came to its end
///         }
///         try checkWhatIsLeft(path)
///     }
///
/// It is a VFS that passes everything to the one that was SQLite's default, the same as ``FailingVFS``. Memory that
/// processes share (a WAL's index) and temporary files are not counted. Source: <https://www.sqlite.org/vfs.html>.
public enum KillingVFS {
    /// What the process leaves behind when it is killed.
    public enum Manner: String, Sendable, Codable, CaseIterable {
        /// All that was written before, and nothing of the operation.
        case before
        /// The first half of a write as well.
        case torn
        /// Of each file what its last sync covered: the power failed. Rollback journals are back whose deletion no sync of
        /// their folder covered; other deletions are kept.
        case powerLoss
        /// The same, but each write since that sync, and each such deletion, is kept or lost by chance, in whatever order they
        /// came.
        case reordered

        /// Whether what was not synced may be lost.
        public var losesPower: Bool { self == .powerLoss || self == .reordered }
    }

    /// Makes it SQLite's default, for all connections that the process opens from now on.
    ///
    /// - Throws: ``RegistrationError`` when SQLite has no default to pass on to, or refuses.
    public static func register() throws { try InterposedVFS.register() }

    /// Has the process killed at the `point`-th operation from now, 1 being the next one.
    ///
    /// - Parameter seed: Chooses what is kept, when the manner is ``Manner/reordered``.
    public static func kill(at point: Int, manner: Manner = .before, seed: UInt64 = 0) {
        FaultState.shared.withLock { state in
            state.count = 0
            state.point = point
            state.manner = manner
            state.seed = seed
        }
    }

    /// Lets the process live, and starts counting anew.
    public static func disarm() {
        kill(at: 0)
    }

    /// The operations since ``kill(at:manner:seed:)`` or ``disarm()``.
    public static var operations: Int {
        FaultState.shared.withLock { $0.count }
    }

    /// Kills the process here, in the manner that was chosen.
    public static func killNow() -> Never {
        FaultState.shared.withLock { $0.die() }
    }
}
