internal import Dispatch
internal import SQLiteConnection
internal import Synchronization

/// Keeps steps apart from the application's write transactions, within one process and for one target file.
///
/// If a step ran in the middle of a transaction that has read, the transaction's first write would fail. If a write ran in the
/// middle of a step, the write would wait or fail. The application would not meet these errors without Midstream. So whoever may
/// write holds the gate from before the first statement until the transaction is over, and a step holds the gate alone.
final class FileGate: Sendable {
    private struct State {
        var holders = 0
        var isStepping = false
        /// The thread that makes the step.
        var stepper: ThreadIdentity?
        /// Steps that wait. Whoever comes later waits too; otherwise a writer that never rests would keep the steps out for ever.
        var waitingSteps: [DispatchSemaphore] = []
        /// Writers that wait. A step that ends lets them all in; otherwise the next step could enter before them.
        var waitingWriters: [DispatchSemaphore] = []

        /// Lets in everyone who may enter now.
        ///
        /// - Returns: Those that must be woken.
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

    /// Enters the gate to write. Waits while a step runs, or while a step waits that came first.
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
        // Whoever lets this writer in has counted it among the holders.
        semaphore?.wait()
    }

    func leave() {
        wake { state in
            state.holders -= 1
            return state.admit(afterStep: false)
        }
    }

    /// Enters the gate for a step as soon as nobody is inside, but waits no longer than `timeout`.
    ///
    /// The step holds nothing while it waits. A writer that wants to enter meanwhile gets in after the step, or after the
    /// timeout. This is also so for a writer that the step itself waits for, and that enters again by way of another `Database`
    /// of the same file.
    ///
    /// - Returns: `false` after the timeout.
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

    /// Whether a writer waits for the step to end, and not only another step.
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
