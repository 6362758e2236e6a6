internal import SQLiteC
internal import Synchronization

/// Interrupts a connection's running statements, from any thread.
///
/// Source: <https://www.sqlite.org/c3ref/interrupt.html>.
public final class InterruptHandle: Sendable {
    // The pointer is kept as a number, since `OpaquePointer` is not Sendable. sqlite3_interrupt may be called from any
    // thread while the connection is open, which the lock and `invalidate()` ensure.
    private let address: Mutex<UInt>

    init(_ db: OpaquePointer) {
        address = Mutex(UInt(bitPattern: db))
    }

    func invalidate() {
        address.withLock { $0 = 0 }
    }

    /// Makes the running statements end with ``ResultCode/interrupt``. Does nothing if none is running.
    public func interrupt() {
        address.withLock { address in
            if let db = OpaquePointer(bitPattern: address) { sqlite3_interrupt(db) }
        }
    }
}
