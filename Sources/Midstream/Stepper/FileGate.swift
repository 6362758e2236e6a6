internal import Dispatch
internal import SQLiteConnection
internal import Synchronization

/// Keeps steps and the application's write transactions of one process apart, for one target file.
///
/// A step in the middle of a transaction that has read would make its first write fail; a write in the middle of a step
/// would wait or fail: errors that the application would not meet without Midstream. So whoever may write holds the gate
/// from before its first statement until its transaction is over, and a step holds it alone.
final class FileGate: Sendable {
    private struct State {
        var holders = 0
        var isStepping = false
        /// Who makes the step.
        var stepper: ThreadIdentity?
        /// Steps that wait. Who comes after them waits too, or a writer that never rests would keep them out for ever.
        var waitingSteps: [DispatchSemaphore] = []
        /// Those that may write and wait. A step that ends lets them all in, or the next step could be faster than they.
        var waitingWriters: [DispatchSemaphore] = []

        /// Lets in who can be, and returns whom to wake.
        mutating func admit(afterStep: Bool) -> [DispatchSemaphore] {
            guard !isStepping else { return [] }
            if afterStep || waitingSteps.isEmpty {
                holders += waitingWriters.count
                defer { waitingWriters.removeAll() }
                if !waitingWriters.isEmpty { return waitingWriters }
            }
            return holders == 0 ? waitingSteps : []
        }
    }

    private let state = Mutex(State())

    /// Enters as one that may write; waits while a step runs, or has waited for longer.
    ///
    /// - Throws: ``MigrationError`` with code `misuse` on the thread of the step, which would wait for itself.
    func enter() throws(MigrationError) {
        let thread = ThreadIdentity.current
        let semaphore: DispatchSemaphore? = try state.withLock { state throws(MigrationError) in
            if state.isStepping, state.stepper == thread {
                throw MigrationError(
                    .misuse,
                    "the closure of refusedRows = .ask is called within a step, and cannot write the database: "
                        + "return a decision, and write after the step"
                )
            }
            if !state.isStepping, state.waitingSteps.isEmpty {
                state.holders += 1
                return nil
            }
            let semaphore = DispatchSemaphore(value: 0)
            state.waitingWriters.append(semaphore)
            return semaphore
        }
        // Who lets it in has counted it.
        semaphore?.wait()
    }

    func leave() {
        wake { state in
            state.holders -= 1
            return state.admit(afterStep: false)
        }
    }

    /// Enters as a step when nobody is inside; waits until then, but not for longer than `timeout`.
    ///
    /// It holds nothing while it waits. Who wants to enter to write meanwhile comes after it, or after the timeout: also
    /// one who is waited for himself, by way of another `Database` of the same file.
    func enterForStep(waiting timeout: Duration) -> Bool {
        let deadline = DispatchTime.now() + .nanoseconds(timeout.nanoseconds)
        let semaphore = DispatchSemaphore(value: 0)
        while true {
            let isInside = state.withLock { state in
                let canEnter = state.holders == 0 && !state.isStepping
                if canEnter {
                    state.isStepping = true
                    state.stepper = .current
                    state.waitingSteps.removeAll { $0 === semaphore }
                } else if !state.waitingSteps.contains(where: { $0 === semaphore }) {
                    state.waitingSteps.append(semaphore)
                }
                return canEnter
            }
            if isInside { return true }
            if semaphore.wait(timeout: deadline) == .timedOut {
                wake { state in
                    state.waitingSteps.removeAll { $0 === semaphore }
                    return state.admit(afterStep: false)
                }
                return false
            }
        }
    }

    func leaveStep() {
        wake { state in
            state.isStepping = false
            state.stepper = nil
            return state.admit(afterStep: true)
        }
    }

    /// Whether somebody waits for the step to end.
    var isAwaited: Bool {
        state.withLock { $0.isStepping && !($0.waitingWriters.isEmpty && $0.waitingSteps.isEmpty) }
    }

    /// Whether one who waits for the step to end is going to write, and not to step as well.
    var isAwaitedByWriters: Bool {
        state.withLock { $0.isStepping && !$0.waitingWriters.isEmpty }
    }

    private func wake(_ change: (inout State) -> [DispatchSemaphore]) {
        for semaphore in state.withLock({ change(&$0) }) { semaphore.signal() }
    }

    // MARK: One for each file

    private struct Weak { weak var gate: FileGate? }
    private static let gates = Mutex<[FileIdentity: Weak]>([:])

    /// The process's gate for a file that exists.
    static func gate(forFile path: String) -> FileGate {
        guard let identity = FilePath.identity(path) else { return FileGate() }
        return gates.withLock { gates in
            if let gate = gates[identity]?.gate { return gate }
            let gate = FileGate()
            gates = gates.filter { $0.value.gate != nil }
            gates[identity] = Weak(gate: gate)
            return gate
        }
    }
}

extension Duration {
    /// As whole nanoseconds, for Dispatch.
    var nanoseconds: Int {
        let (seconds, attoseconds) = components
        let most = Int64.max / 2_000_000_000
        return Int(min(max(seconds, -most), most) * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
