#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif
internal import SQLiteConnection

/// Waits for locks that other connections hold, and checks often whether a lock is free.
///
/// SQLite's own timeout ends up checking only every 100 ms. Where other processes write all the time and leave gaps of a few
/// milliseconds, it misses nearly every gap.
final class LockWait {
    /// How long to wait for one lock.
    var patience: Duration

    private let clock = ContinuousClock()
    private var since: ContinuousClock.Instant?

    /// Sets the busy handler of `connection`, so that the connection waits in this way.
    init(of connection: Connection, patience: Duration) {
        self.patience = patience
        connection.setBusyHandler { [self] in goesOn(after: $0) }
    }

    /// - Parameter tries: How often SQLite has already waited for this lock.
    private func goesOn(after tries: Int) -> Bool {
        let now = clock.now
        if tries == 0 { since = now }
        guard now - (since ?? now) < patience else { return false }
        usleep(tries < 10 ? 1000 : 4000)
        return true
    }
}
