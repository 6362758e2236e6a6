internal import Dispatch
internal import SQLiteConnection
internal import Synchronization

/// Keeps the target's WAL from growing without end.
///
/// SQLite starts the WAL anew when all of it has been copied into the file and nobody reads it. If readers come and go without a
/// pause, that moment never comes, and the WAL grows with each commit. So once the WAL is long, the keeper holds back new readers
/// of this process until the present readers have left, for a few milliseconds at most.
///
/// Source: <https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files>.
final class WALKeeper: Sendable {
    /// From this many frames on, a checkpoint follows a commit of the application: SQLite's own bound.
    static let checkpointFrames = 1000
    /// How many pages steps write before they copy the WAL into the file: 7 MB of pages of the usual size, which take about as
    /// long as a step. Steps write the same pages of an index again and again, and a checkpoint copies each page once. Half as
    /// many pages would cost a quarter more of the processor's time.
    private static let stepFrames = 1700
    /// Runs `body` while no reader of the process has a snapshot, if such a moment comes within `time`.
    ///
    /// - Returns: Whether the moment came.
    typealias WithoutReaders = @Sendable (_ time: DispatchTimeInterval, _ body: () -> Void) -> Bool

    /// From this many frames on, readers are held back: 40 MB of pages of the usual size.
    private static let longFrames = 10_000
    /// While steps follow each other within this time, commits of the application leave checkpoints to the steps.
    private static let steadyPace = Duration.milliseconds(250)
    /// How many frames may be left to copy after a step has just copied a long WAL: no more than commits beside the copying have
    /// written.
    private static let fewFrames = 500
    /// How long readers are held back at most if one of them stays, in milliseconds. The time doubles after each try that failed,
    /// up to the upper bound.
    private static let pauses = 10...160

    private struct State {
        /// The WAL's length after the last commit or checkpoint.
        var frames = 0
        /// How many of the frames have been copied. The WAL starts anew only when all have been copied; commits that go on beside
        /// a checkpoint prevent that.
        var copied = 0
        /// The WAL's length at the last checkpoint. Frames that this checkpoint left, because somebody reads an older snapshot,
        /// the next checkpoint would leave too.
        var tried = 0
        /// How many pages steps have written into the WAL. Steps will copy these pages.
        var stepped = 0
        /// When a step last wrote.
        var lastStep: ContinuousClock.Instant?
        var isSteady: Bool { lastStep.map { ContinuousClock.now - $0 < WALKeeper.steadyPace } ?? false }
        /// The length from which on readers are held back next; `pause` is for how long.
        var limit = WALKeeper.longFrames
        var pause = WALKeeper.pauses.lowerBound
    }

    private let state = Mutex(State())
    private let withoutReaders: WithoutReaders

    init(withoutReaders: @escaping WithoutReaders) {
        self.withoutReaders = withoutReaders
    }

    /// Notes the WAL's length after a commit of the application.
    ///
    /// - Returns: Whether it is time for a checkpoint. Pages that steps have written are left to the steps.
    func committed(_ frames: Int) -> Bool {
        state.withLock { state in
            if frames < state.frames { (state.copied, state.tried) = (0, 0) }
            state.frames = frames
            let bound = Self.checkpointFrames + min(state.stepped, Self.stepFrames)
            let isDue = frames - state.copied >= bound && !state.isSteady
            if isDue { state.stepped = 0 }
            return isDue
        }
    }

    /// Notes the pages that a step has written.
    func stepped(_ pages: Int) {
        state.withLock { state in
            state.stepped += pages
            state.lastStep = .now
        }
    }

    /// Whether it is time for steps to copy the WAL: because of what the steps have written, or because of the application's
    /// part, which was left to the steps.
    var isDueForSteps: Bool {
        state.withLock { state in
            state.stepped >= Self.stepFrames
                || state.frames - max(state.copied, state.tried) >= state.stepped + Self.checkpointFrames
        }
    }

    /// How many frames precede what is written next, because the WAL cannot start anew yet; 0 if all frames have been copied.
    var framesInTheWay: Int {
        state.withLock { $0.frames > $0.copied ? $0.frames : 0 }
    }

    /// Whether the WAL is so long that readers should be held back. While steps follow each other, the keeper first waits until a
    /// step has just copied the WAL, so that little is left to copy.
    var isLong: Bool {
        state.withLock { state in
            guard state.frames >= state.limit else { return false }
            return state.frames - state.copied < Self.fewFrames || state.frames >= state.limit + Self.longFrames / 4
                || !state.isSteady
        }
    }

    /// Copies the WAL into the file. A failure loses nothing: the next checkpoint copies what this one could not.
    ///
    /// Call it outside transactions, and not from a block that reads.
    func shorten(_ connection: Connection) {
        state.withLock { $0.stepped = 0 }
        copy(connection)
        guard isLong else { return }
        let pause = state.withLock { $0.pause }
        let isDone = withoutReaders(.milliseconds(pause)) { copy(connection) }
        state.withLock { state in
            if isDone {
                state = State()
            } else {
                state.limit = state.frames + Self.longFrames / 2
                state.pause = min(pause * 2, Self.pauses.upperBound)
            }
        }
    }

    /// Copies the WAL into the file, as far as readers allow.
    func copy(_ connection: Connection) {
        guard let (log, copied) = try? connection.checkpoint(mode: .passive) else { return }
        state.withLock { state in
            state.frames = max(0, log)
            state.copied = max(0, copied)
            state.tried = state.frames
        }
    }
}
