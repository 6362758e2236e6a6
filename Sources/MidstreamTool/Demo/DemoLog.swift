internal import Dispatch
internal import Synchronization

/// What the application did and saw, for the comparison with plain SQLite.
///
/// Each transaction that writes has a number, its turn. A transaction that reads notes the turn of its snapshot. Plain
/// SQLite is brought forward turn by turn, and no further than the oldest snapshot that is still being read.
final class DemoLog: Sendable {
    /// The next thing to compare.
    enum Entry: Sendable {
        /// Reads at the turn that plain SQLite has reached.
        case reads([[DemoOutcome]])
        /// The writes of the next turn.
        case turn([DemoOutcome])
        /// There is nothing to compare now.
        case wait
        case end
    }

    private struct State {
        var turns: [Int64: [DemoOutcome]] = [:]
        var reads: [Int64: [[DemoOutcome]]] = [:]
        /// For each active reader, a turn that its snapshot has reached at least.
        var readers: [Int: Int64] = [:]
        var lastReader = 0
        var lastTurn: Int64 = 0
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Notes the outcomes of a transaction that wrote, after its commit.
    func add(turn: Int64, _ outcomes: [DemoOutcome]) {
        state.withLock { state in
            state.turns[turn] = outcomes
            state.lastTurn = max(state.lastTurn, turn)
        }
    }

    /// Notes that a transaction begins to read, before it begins.
    func beginReading() -> Int {
        state.withLock { state in
            state.lastReader += 1
            state.readers[state.lastReader] = state.lastTurn
            return state.lastReader
        }
    }

    /// Notes what a reader has read, and at which turn; nothing if the read failed.
    func endReading(_ reader: Int, turn: Int64?, _ outcomes: [DemoOutcome]) {
        state.withLock { state in
            state.readers[reader] = nil
            if let turn { state.reads[turn, default: []].append(outcomes) }
        }
    }

    /// Says that nothing more will be noted.
    func close() {
        state.withLock { $0.isClosed = true }
    }

    /// The entry that can be compared when plain SQLite is at `turn`.
    func next(at turn: Int64) -> Entry {
        state.withLock { state in
            if let reads = state.reads.removeValue(forKey: turn) { return .reads(reads) }
            let isRead = state.readers.values.contains { $0 <= turn }
            if !isRead, let outcomes = state.turns.removeValue(forKey: turn + 1) { return .turn(outcomes) }
            return state.isClosed && state.readers.isEmpty && !isRead ? .end : .wait
        }
    }

    /// How many transactions are left when nothing more can be compared: 0, unless a turn was lost.
    var leftovers: Int {
        state.withLock { $0.turns.count + $0.reads.count }
    }
}
