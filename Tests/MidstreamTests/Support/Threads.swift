import Dispatch
import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Runs bodies on threads of their own, and notes what goes wrong in them.
final class Threads: Sendable {
    private let group = DispatchGroup()
    private let problems = Mutex<[String]>([])
    private let observations = Mutex<[String: Int]>([:])
    private let hasEnded = Atomic<Bool>(false)

    /// Whether loops are to end.
    var isOver: Bool { hasEnded.load(ordering: .acquiring) }
    func end() { hasEnded.store(true, ordering: .releasing) }

    func note(_ problem: String) {
        problems.withLock { problems in if problems.count < 20 { problems.append(problem) } }
    }

    /// Counts an event that a test wants to have happened.
    func count(_ observation: String) {
        observations.withLock { $0[observation, default: 0] += 1 }
    }

    func count(of observation: String) -> Int { observations.withLock { $0[observation] ?? 0 } }

    func start(_ name: String, _ body: @escaping @Sendable (Threads) throws -> Void) {
        // A serial queue has a thread of its own; a concurrent queue would take threads on which tasks run.
        DispatchQueue(label: name).async(group: group) { @Sendable [self] in
            do {
                try body(self)
            } catch {
                note("\(name): \(error)")
            }
        }
    }

    /// Runs a body again and again until ``end()``, and `more` times after that.
    func loop(_ name: String, after more: Int = 10, _ body: @escaping @Sendable (Threads) throws -> Void) {
        start(name) { threads in
            while !threads.isOver {
                try body(threads)
                threads.count(name)
            }
            for _ in 0..<more { try body(threads) }
        }
    }

    /// Waits for all threads, and records what went wrong.
    func join(_ location: SourceLocation = #_sourceLocation) async {
        for problem in await problemsInTheEnd() { Issue.record("\(problem)", sourceLocation: location) }
    }

    private func problemsInTheEnd() async -> [String] {
        await withCheckedContinuation { continuation in
            group.notify(queue: DispatchQueue(label: "joined")) { @Sendable in continuation.resume() }
        }
        return problems.withLock { $0 }
    }

    /// Like `join`, for a process that can tell of an error only by its exit status.
    func joinInChild() async throws {
        let problems = await problemsInTheEnd()
        for problem in problems { print(problem) }
        if !problems.isEmpty { throw Problems(texts: problems) }
    }

    struct Problems: Error {
        let texts: [String]
    }
}

/// Runs a body on a thread of its own, so that it does not block a thread of the tasks.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue(label: "midstream.test").async { @Sendable in
            continuation.resume(with: Swift.Result { try body() })
        }
    }
}

/// Waits until a file is there that another process makes.
func waitForFile(_ path: String, seconds: Int = 1800) -> Bool {
    for _ in 0..<(seconds * 200) {
        if Files.exists(path) { return true }
        usleep(5000)
    }
    return false
}
