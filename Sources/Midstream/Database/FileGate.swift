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
        var waiting: [DispatchSemaphore] = []
    }

    private let state = Mutex(State())

    /// Enters as one that may write; waits while a step runs.
    func enter() {
        while true {
            let semaphore: DispatchSemaphore? = state.withLock { state in
                if !state.isStepping {
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

    /// Enters as a step, if nobody is inside.
    func tryEnterForStep() -> Bool {
        state.withLock { state in
            guard state.holders == 0, !state.isStepping else { return false }
            state.isStepping = true
            return true
        }
    }

    /// Waits until somebody has left, for at most that long.
    func waitForStep(_ timeout: DispatchTimeInterval) {
        let semaphore: DispatchSemaphore? = state.withLock { state in
            guard state.holders > 0 || state.isStepping else { return nil }
            let semaphore = DispatchSemaphore(value: 0)
            state.waiting.append(semaphore)
            return semaphore
        }
        _ = semaphore?.wait(timeout: .now() + timeout)
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
