#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// A plain mutex, for values that are not Sendable and are handed to callers' closures while it is held.
///
/// Unchecked: the pointer is allocated once and freed with the object, and POSIX makes the calls on it thread-safe.
/// `Mutex` of Synchronization is used elsewhere; it cannot lend a value that is not Sendable to a closure of the caller.
final class Lock: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>

    init() {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    func withLock<Result>(_ body: () throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }
}

/// A value that only one thread at a time may touch.
///
/// Unchecked: `value` is reachable through ``withValue(_:)`` alone, which holds the lock.
final class Confined<Value>: @unchecked Sendable {
    private let lock = Lock()
    private let value: Value

    init(_ value: Value) {
        self.value = value
    }

    func withValue<Result>(_ body: (Value) throws -> Result) rethrows -> Result {
        try lock.withLock { try body(value) }
    }
}
