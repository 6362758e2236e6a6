internal import Dispatch
internal import Synchronization

/// A timer that makes steps until there is nothing left to move.
final class AutoMigration: Sendable {
    private let timer = Mutex<(any DispatchSourceTimer)?>(nil)
    private let queue = DispatchQueue(label: "midstream.steps", qos: .utility)

    /// Calls `step` at that pace, until it returns `false`. Takes the place of a timer that runs.
    func start(_ pace: MigrationPace, _ step: @escaping @Sendable () -> Bool) {
        timer.withLock { timer in
            timer?.cancel()
            let source = DispatchSource.makeTimerSource(queue: queue)
            source.schedule(
                deadline: .now(),
                repeating: .nanoseconds(max(pace.interval.nanoseconds, 1_000_000)),
                leeway: .milliseconds(1)
            )
            source.setEventHandler { @Sendable [weak self] in
                if !step() { self?.stop() }
            }
            source.resume()
            timer = source
        }
    }

    /// Cancels the timer, which may never be released while it is suspended.
    func stop() {
        timer.withLock { timer in
            timer?.cancel()
            timer = nil
        }
    }

    deinit {
        timer.withLock { $0?.cancel() }
    }
}
