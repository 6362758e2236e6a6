internal import Dispatch
internal import SQLiteConnection

/// The connections that read, each used by one block at a time.
///
/// Unchecked: a `DatabaseAccess` is confined; it is in the hands of one block, or idle in the pool, and both change
/// under the lock.
final class ReaderPool: @unchecked Sendable {
    private enum Waiter {
        case thread(DispatchSemaphore)
        case task(@Sendable () -> Void)
    }

    private let lock = Lock()
    private var idle: [DatabaseAccess] = []
    /// The threads whose blocks read, with what they read by.
    private var busy: [(thread: ThreadIdentity, reader: DatabaseAccess)] = []
    private var count = 0
    private var waiters: [Waiter] = []
    private var isClosed = false
    /// Signalled when the last reader has come back while the pool is paused.
    private var pause: DispatchSemaphore?
    private let capacity: Int
    private let open: () throws -> DatabaseAccess

    init(capacity: Int, open: @escaping () throws -> DatabaseAccess) {
        self.capacity = max(1, capacity)
        self.open = open
    }

    /// Runs `body` with a connection, on the calling thread; waits for one.
    ///
    /// - Parameter beyondCapacity: Whether one more is opened where all are in use: by who may be waited for by all who read.
    func withReader<Result>(
        beyondCapacity: Bool = false,
        _ body: (DatabaseAccess) throws -> Result
    ) throws -> Result {
        // A block that reads by another connection within one would wait for itself.
        let mayExceed = beyondCapacity || current != nil
        while true {
            if let reader = try take(mayExceed) {
                defer { giveBack(reader) }
                note(reader)
                return try body(reader)
            }
            let semaphore = DispatchSemaphore(value: 0)
            guard wait(.thread(semaphore), mayExceed) else { continue }
            semaphore.wait()
        }
    }

    /// Runs `body` on a thread of the pool's when a connection is free. No thread waits for one.
    func schedule(_ body: @escaping @Sendable (Swift.Result<Box, any Error>) -> Void) {
        let attempt: @Sendable () -> Void = { [self] in schedule(body) }
        let mayExceed = current != nil
        do {
            if let reader = try take(mayExceed) {
                let box = Box(reader)
                // A serial queue has a thread of its own. A concurrent one shares as many as there are cores with all
                // that uses Dispatch, Swift's tasks too, and a long statement would keep them from being run.
                DispatchQueue(label: "midstream.reader").async { @Sendable [self] in
                    note(box.access)
                    body(.success(box))
                    giveBack(box.access)
                }
            } else if !wait(.task(attempt), mayExceed) {
                attempt()
            }
        } catch {
            body(.failure(error))
        }
    }

    private func note(_ reader: DatabaseAccess) {
        lock.withLock { busy.append((.current, reader)) }
    }

    /// What the calling thread's innermost block reads by; `nil` outside of blocks.
    var current: DatabaseAccess? {
        let thread = ThreadIdentity.current
        return lock.withLock { busy.last { $0.thread == thread }?.reader }
    }

    /// A connection on its way to the thread that uses it. Unchecked: it is in nobody else's hands.
    struct Box: @unchecked Sendable {
        let access: DatabaseAccess
        init(_ access: DatabaseAccess) { self.access = access }
    }

    /// Runs `body` with each connection that nobody uses.
    func withIdle(_ body: (DatabaseAccess) -> Void) {
        let readers = lock.withLock {
            if pause != nil { return [DatabaseAccess]() }
            defer { idle.removeAll() }
            return idle
        }
        for reader in readers {
            body(reader)
            leave(reader)
        }
    }

    private func take(_ mayExceed: Bool) throws -> DatabaseAccess? {
        let (reader, isOneMore): (DatabaseAccess?, Bool) = try lock.withLock {
            if isClosed { throw MigrationError(.misuse, "the database is closed") }
            if pause != nil { return (nil, false) }
            if let reader = idle.popLast() { return (reader, false) }
            if count >= capacity, !mayExceed { return (nil, false) }
            count += 1
            return (nil, true)
        }
        guard isOneMore else { return reader }
        do {
            return try open()
        } catch {
            leave(nil)
            throw error
        }
    }

    /// Notes a waiter; `false` when a connection has become free meanwhile, or none will.
    private func wait(_ waiter: Waiter, _ mayExceed: Bool) -> Bool {
        lock.withLock {
            let isFull = idle.isEmpty && count >= capacity && !mayExceed
            guard !isClosed, pause != nil || isFull else { return false }
            waiters.append(waiter)
            return true
        }
    }

    private func giveBack(_ reader: DatabaseAccess) {
        reader.endUnattended()
        // One whose transaction cannot be ended, for want of memory, is of no more use.
        if reader.isInTransaction {
            lock.withLock { busy.removeAll { $0.reader === reader } }
            reader.close()
            leave(nil)
        } else {
            leave(reader)
        }
    }

    /// Notes that a connection has come back, or is no more, and lets the next one in who waits.
    private func leave(_ reader: DatabaseAccess?) {
        let waiter: Waiter? = lock.withLock {
            if let reader, let index = busy.firstIndex(where: { $0.reader === reader }) { busy.remove(at: index) }
            if let reader, !isClosed, count <= capacity {
                idle.append(reader)
            } else {
                count -= 1
            }
            if let pause {
                if idle.count == count { pause.signal() }
                return nil
            }
            return waiters.isEmpty ? nil : waiters.removeFirst()
        }
        switch waiter {
        case .thread(let semaphore): semaphore.signal()
        case .task(let body): body()
        case nil: break
        }
    }

    /// Runs `body` while nobody reads: readers that come wait, and those that are there are waited for.
    ///
    /// - Returns: Whether it was run: not when a reader stays for longer than the timeout, or another such call runs.
    func withoutReaders(for timeout: DispatchTimeInterval, _ body: () -> Void) -> Bool {
        let semaphore = DispatchSemaphore(value: 0)
        let isPaused = lock.withLock {
            guard pause == nil, !isClosed else { return false }
            pause = semaphore
            if idle.count == count { semaphore.signal() }
            return true
        }
        guard isPaused else { return false }
        let isEmpty = semaphore.wait(timeout: .now() + timeout) == .success
        if isEmpty { body() }
        let waiting = lock.withLock {
            pause = nil
            let waiting = waiters
            waiters.removeAll()
            return waiting
        }
        wake(waiting)
        return isEmpty
    }

    private func wake(_ waiting: [Waiter]) {
        for waiter in waiting {
            switch waiter {
            case .thread(let semaphore): semaphore.signal()
            case .task(let body): body()
            }
        }
    }

    func close() {
        let (closed, waiting) = lock.withLock {
            isClosed = true
            let closed = idle
            count -= closed.count
            idle.removeAll()
            let waiting = waiters
            waiters.removeAll()
            return (closed, waiting)
        }
        for reader in closed { reader.close() }
        wake(waiting)
    }
}
