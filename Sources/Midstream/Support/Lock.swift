#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// A plain mutex. It protects values that are not Sendable and that are handed to callers' closures while the lock is held.
///
/// Unchecked: the pointer is allocated once and freed with the object, and POSIX makes the calls on it thread-safe.
/// Elsewhere, `Mutex` of Synchronization is used. It cannot lend a value that is not Sendable to a closure of the caller, and the
/// thread sanitizer does not see it.
package final class Lock: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>

    package init() {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        // A thread that locks the mutex twice gets an error, and does not wait for itself.
        pthread_mutexattr_settype(&attributes, numericCast(PTHREAD_MUTEX_ERRORCHECK))
        pthread_mutex_init(mutex, &attributes)
        pthread_mutexattr_destroy(&attributes)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    package func withLock<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let result = try withLockUnlessHeld(body) else {
            preconditionFailure("a thread takes a lock that it holds")
        }
        return result
    }

    /// - Returns: `nil` when the calling thread holds the lock already.
    func withLockUnlessHeld<Result>(_ body: () throws -> Result) rethrows -> Result? {
        guard pthread_mutex_lock(mutex) != EDEADLK else { return nil }
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }
}

/// A value that only one thread at a time may use.
///
/// Unchecked: `value` is reachable only through ``withValue(_:)`` and ``withValueUnlessHeld(_:)``, which hold the lock.
final class Confined<Value>: @unchecked Sendable {
    private let lock = Lock()
    private let value: Value

    init(_ value: Value) {
        self.value = value
    }

    func withValue<Result>(_ body: (Value) throws -> Result) rethrows -> Result {
        try lock.withLock { try body(value) }
    }

    /// - Returns: `nil` when the calling thread is using the value already.
    func withValueUnlessHeld<Result>(_ body: (Value) throws -> Result) rethrows -> Result? {
        try lock.withLockUnlessHeld { try body(value) }
    }
}
