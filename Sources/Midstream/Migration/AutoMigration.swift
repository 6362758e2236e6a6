internal import Dispatch
internal import Synchronization

/// A timer that makes steps until there is nothing left to move.
final class AutoMigration: Sendable {
    private struct Running {
        var timer: (any DispatchSourceTimer)?
        /// Distinguishes timers: a step may start another timer.
        var number = 0
    }

    private let running = Mutex(Running())
    private let queue = DispatchQueue(label: "midstream.steps", qos: .utility)

    /// Calls `step` at that pace until `step` returns `false`. Replaces a timer that runs.
    ///
    /// - Parameter step: Gets a closure that tells whether this timer still runs.
    func start(_ pace: MigrationPace, _ step: @escaping @Sendable (_ isRunning: () -> Bool) -> Bool) {
        running.withLock { running in
            running.timer?.cancel()
            running.number += 1
            let number = running.number
            let source = DispatchSource.makeTimerSource(queue: queue)
            source.schedule(
                deadline: .now(),
                repeating: .nanoseconds(max(pace.interval.nanoseconds, 1_000_000)),
                leeway: .milliseconds(1)
            )
            source.setEventHandler { @Sendable [weak self] in
                if !step({ self?.isRunning(number) ?? false }) { self?.stop(number) }
            }
            source.resume()
            running.timer = source
        }
    }

    private func isRunning(_ number: Int) -> Bool {
        running.withLock { $0.number == number && $0.timer != nil }
    }

    /// Cancels the timer. A timer must not be released while it is suspended.
    ///
    /// - Parameter number: The number of the only timer to stop; `nil` for whichever timer runs.
    func stop(_ number: Int? = nil) {
        running.withLock { running in
            guard number ?? running.number == running.number else { return }
            running.timer?.cancel()
            running.timer = nil
        }
    }

    deinit {
        running.withLock { $0.timer?.cancel() }
    }
}
