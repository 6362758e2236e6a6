/// Kills the process at a chosen write, sync, truncation or deletion of a database's files, for tests of what a crash
/// leaves behind.
///
/// A test that starts a process for each point, for instance with Swift Testing's exit tests, finds out whether the
/// application's data are whole wherever the process dies:
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
/// This is a VFS that passes everything to the VFS that was SQLite's default before. ``FailingVFS`` is part of the same
/// VFS. Memory that processes share (a WAL's index) and temporary files are not counted.
/// Source: <https://www.sqlite.org/vfs.html>.
public enum KillingVFS {
    /// What the process leaves behind when it is killed.
    public enum Manner: String, Sendable, Codable, CaseIterable {
        /// All writes before the operation, and nothing of the operation.
        case before
        /// All writes before the operation, and the first half of the operation if it is a write.
        case torn
        /// For each file, what its last sync covered: the power failed. A rollback journal comes back if no sync of its
        /// folder covered its deletion; other deletions are kept.
        case powerLoss
        /// Like a power loss, but each write since the last sync of its file, and each deletion of a journal that no
        /// sync covered, is kept or lost by chance, in whatever order they came.
        case reordered

        /// Whether writes that were not synced may be lost.
        public var losesPower: Bool { self == .powerLoss || self == .reordered }
    }

    /// Makes this VFS SQLite's default, for all connections that the process opens from now on.
    ///
    /// - Throws: ``RegistrationError`` if SQLite has no default VFS to pass operations to, or refuses.
    public static func register() throws { try InterposedVFS.register() }

    /// Makes the process die at the `point`-th operation from now, 1 being the next one.
    ///
    /// - Parameter seed: Decides what is kept if the manner is ``Manner/reordered``.
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

    /// The number of operations since ``kill(at:manner:seed:)`` or ``disarm()``.
    public static var operations: Int {
        FaultState.shared.withLock { $0.count }
    }

    /// Kills the process here, in the manner that was chosen.
    public static func killNow() -> Never {
        FaultState.shared.withLock { $0.die() }
    }
}
