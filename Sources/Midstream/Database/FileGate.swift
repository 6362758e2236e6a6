internal import Dispatch
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
        /// Steps that wait. Who comes after them waits too, or a writer that never rests would keep them out for ever.
        var reservations = 0
        var waiting: [DispatchSemaphore] = []
    }

    private let state = Mutex(State())

    /// Enters as one that may write; waits while a step runs, or has waited for longer.
    func enter() {
        while true {
            let semaphore: DispatchSemaphore? = state.withLock { state in
                if !state.isStepping, state.reservations == 0 {
                    state.holders += 1
                    return nil
                }
                let semaphore = DispatchSemaphore(value: 0)
                state.waiting.append(semaphore)
                return semaphore
            }
            guard let semaphore else { return }
            semaphore.wait()
        }
    }

    func leave() {
        wake { $0.holders -= 1 }
    }

    /// Enters as a step when nobody is inside; waits until then, but not for longer than `timeout`.
    ///
    /// It holds nothing while it waits. Who wants to enter to write meanwhile comes after it, or after the timeout: also
    /// one who is waited for himself, by way of another `Database` of the same file.
    func enterForStep(waiting timeout: Duration) -> Bool {
        let deadline = DispatchTime.now() + .nanoseconds(timeout.nanoseconds)
        var isReserved = false
        while true {
            let semaphore: DispatchSemaphore? = state.withLock { state in
                if state.holders == 0, !state.isStepping {
                    state.isStepping = true
                    if isReserved { state.reservations -= 1 }
                    return nil
                }
                if !isReserved { state.reservations += 1 }
                isReserved = true
                let semaphore = DispatchSemaphore(value: 0)
                state.waiting.append(semaphore)
                return semaphore
            }
            guard let semaphore else { return true }
            if semaphore.wait(timeout: deadline) == .timedOut {
                wake { $0.reservations -= 1 }
                return false
            }
        }
    }

    func leaveStep() {
        wake { $0.isStepping = false }
    }

    /// Whether somebody waits for the step to end.
    var isAwaited: Bool {
        state.withLock { $0.isStepping && !$0.waiting.isEmpty }
    }

    private func wake(_ change: (inout State) -> Void) {
        let waiting = state.withLock { state in
            change(&state)
            let waiting = state.waiting
            state.waiting.removeAll()
            return waiting
        }
        for semaphore in waiting { semaphore.signal() }
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
        let (product, overflow) = Int(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max / 2 : product + Int(attoseconds / 1_000_000_000)
    }
}
