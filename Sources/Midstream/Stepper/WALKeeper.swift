internal import Dispatch
internal import SQLiteConnection
internal import Synchronization

/// Keeps the target's WAL from growing without end.
///
/// SQLite starts the WAL anew when all of it has been copied into the file and nobody reads it. Where readers come and go
/// without a pause, that moment never comes, and the WAL grows with each commit. So when it has become long, new readers
/// of this process are held back until those that are there have left, for a few milliseconds at most.
///
/// Source: <https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files>.
final class WALKeeper: Sendable {
    /// The frames from which on a commit of the application is followed by a checkpoint: SQLite's own bound.
    static let checkpointFrames = 1000
    /// The pages that steps write before they copy the WAL into the file, 7 MB of the usual ones: what takes about as long
    /// as a step. Steps write the same pages of an index again and again, and a checkpoint copies each once; half as many
    /// would cost a quarter more of the processor's time.
    private static let stepFrames = 1700
    /// Runs something while no reader of the process has a snapshot, if such a moment comes within a time.
    ///
    /// - Returns: Whether it came.
    typealias WithoutReaders = @Sendable (_ time: DispatchTimeInterval, _ body: () -> Void) -> Bool

    /// The frames from which on readers are held back, 40 MB of the usual pages.
    private static let longFrames = 10_000
    /// While steps follow each other by less, commits of the application leave checkpoints to them.
    private static let steadyPace = Duration.milliseconds(250)
    /// What is left to copy at most when a long WAL has just been copied by a step: as little as commits beside that have written.
    private static let fewFrames = 500
    /// How long they are held back at most, when one of them stays: in milliseconds, twice as long after each try that
    /// failed, up to the last.
    private static let pauses = 10...160

    private struct State {
        /// The WAL's length after the last commit or checkpoint.
        var frames = 0
        /// How many of the frames have been copied. The WAL starts anew only when all have, which commits that go on beside a
        /// checkpoint keep it from.
        var copied = 0
        /// The WAL's length at the last checkpoint. What that has left, since somebody reads from before, the next one would leave too.
        var tried = 0
        /// What of it steps have written, and will copy.
        var stepped = 0
        /// When a step has written last.
        var lastStep: ContinuousClock.Instant?
        var isSteady: Bool { lastStep.map { ContinuousClock.now - $0 < WALKeeper.steadyPace } ?? false }
        /// The length from which on readers are held back next, and for how long.
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
    /// - Returns: Whether it is time for a checkpoint. What steps have written is left to them.
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

    /// Whether it is time for steps to copy the WAL: for what they have written, or for the application's part that has been
    /// left to them.
    var isDueForSteps: Bool {
        state.withLock { state in
            state.stepped >= Self.stepFrames
                || state.frames - max(state.copied, state.tried) >= state.stepped + Self.checkpointFrames
        }
    }

    /// The frames that what is written next comes behind, since the WAL cannot start anew before.
    var framesInTheWay: Int {
        state.withLock { $0.frames > $0.copied ? $0.frames : 0 }
    }

    /// Whether the WAL has become so long that readers should be held back. While steps follow each other, the moment is awaited
    /// when one has just copied it, so that little is left to copy.
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

    /// Copies the WAL into the file, as far as readers let it be.
    func copy(_ connection: Connection) {
        guard let (log, copied) = try? connection.checkpoint(mode: .passive) else { return }
        state.withLock { state in
            state.frames = max(0, log)
            state.copied = max(0, copied)
            state.tried = state.frames
        }
    }
}
