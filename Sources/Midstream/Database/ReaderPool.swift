internal import Dispatch
internal import SQLiteConnection

/// The connections that read. One block at a time uses each of them.
///
/// Unchecked Sendable: a `DatabaseAccess` is confined. It is used by one block, or is idle in the pool, and passes from
/// one to the other under the lock.
final class ReaderPool: @unchecked Sendable {
    private enum Waiter {
        case thread(DispatchSemaphore)
        case task(@Sendable () -> Void)
    }

    private let lock = Lock()
    private var idle: [DatabaseAccess] = []
    /// The threads whose blocks are reading, and the connection of each.
    private var busy: [(thread: ThreadIdentity, reader: DatabaseAccess)] = []
    private var count = 0
    private var waiters: [Waiter] = []
    private var isClosed = false
    /// Signalled when the last reader has come back, while the pool is paused.
    private var pause: DispatchSemaphore?
    private let capacity: Int
    private let open: () throws -> DatabaseAccess

    init(capacity: Int, open: @escaping () throws -> DatabaseAccess) {
        self.capacity = max(1, capacity)
        self.open = open
    }

    /// Runs `body` with a connection, on the calling thread. Waits for a connection if none is free.
    ///
    /// - Parameter beyondCapacity: Whether to open one more connection if all are in use: for a caller whom all readers
    ///   may be waiting for.
    func withReader<Result>(
        beyondCapacity: Bool = false,
        _ body: (DatabaseAccess) throws -> Result
    ) throws -> Result {
        // A block that reads by another connection within a reading block would wait for itself.
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

    /// Runs `body` on a thread of the pool once a connection is free. No thread is blocked while it waits.
    func schedule(_ body: @escaping @Sendable (Swift.Result<Box, any Error>) -> Void) {
        let attempt: @Sendable () -> Void = { [self] in schedule(body) }
        let mayExceed = current != nil
        do {
            if let reader = try take(mayExceed) {
                let box = Box(reader)
                // A serial queue has a thread of its own. A concurrent queue would share as many threads as there are
                // cores with everything that uses Dispatch, including Swift's tasks, and a long statement would keep
                // those from running.
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

    /// The connection of the calling thread's innermost reading block; `nil` outside such blocks.
    var current: DatabaseAccess? {
        let thread = ThreadIdentity.current
        return lock.withLock { busy.last { $0.thread == thread }?.reader }
    }

    /// A connection on its way to the thread that uses it. Unchecked Sendable: nobody else has it.
    struct Box: @unchecked Sendable {
        let access: DatabaseAccess
        init(_ access: DatabaseAccess) { self.access = access }
    }

    /// Runs `body` with each idle connection.
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

    /// Notes a waiter. Returns `false` if a connection has become free meanwhile, or if the pool is closed.
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
        // If its transaction cannot be ended, because there is no memory, the connection is of no more use.
        if reader.isInTransaction {
            lock.withLock { busy.removeAll { $0.reader === reader } }
            reader.close()
            leave(nil)
        } else {
            leave(reader)
        }
    }

    /// Notes that a connection has come back or has been closed, and lets in the next waiter.
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

    /// Runs `body` while nobody reads. New readers wait, and `body` waits for the present ones.
    ///
    /// - Returns: Whether `body` was run. It is not run if a reader stays for longer than the timeout, or if another
    ///   such call runs.
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
