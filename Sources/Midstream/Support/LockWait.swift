#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif
internal import SQLiteConnection

/// Waits for locks that other connections hold, and looks often whether one is free.
///
/// SQLite's own timeout looks only every 100 ms in the end. Where other processes write all the while, and leave gaps of a
/// few milliseconds, that comes too late nearly each time.
final class LockWait {
    /// How long to wait.
    var patience: Duration

    private let clock = ContinuousClock()
    private var since: ContinuousClock.Instant?

    /// Has a connection wait in this way.
    init(of connection: Connection, patience: Duration) {
        self.patience = patience
        connection.setBusyHandler { [self] in goesOn(after: $0) }
    }

    /// - Parameter tries: How often this lock has been waited for before.
    private func goesOn(after tries: Int) -> Bool {
        let now = clock.now
        if tries == 0 { since = now }
        guard now - (since ?? now) < patience else { return false }
        usleep(tries < 10 ? 1000 : 4000)
        return true
    }
}
