import Dispatch
import Synchronization
import Testing

@testable import Midstream

@Suite struct FileGateTests {
    /// A counter that threads share.
    final class Count: Sendable {
        private let value = Atomic<Int>(0)
        func increment() { value.add(1, ordering: .sequentiallyConsistent) }
        var now: Int { value.load(ordering: .sequentiallyConsistent) }
    }

    private static func pause(_ time: DispatchTimeInterval) {
        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + time)
    }

    @Test func aWriterWaitsForOneStepAndNotForTheNext() throws {
        let gate = FileGate()
        let (steps, end) = (Count(), Count())
        let threads = DispatchGroup()
        // Steps without a pause: each could be faster than a writer that has only just been woken.
        DispatchQueue(label: "steps").async(group: threads) {
            while end.now == 0 {
                guard gate.enterForStep(waiting: .milliseconds(50)) else { continue }
                steps.increment()
                Self.pause(.microseconds(200))
                gate.leaveStep()
            }
        }
        var most = 0
        for _ in 0..<200 {
            let before = steps.now
            try gate.enter()
            // One that ran, and one that began before this one had asked.
            most = max(most, steps.now - before)
            gate.leave()
            Self.pause(.microseconds(300))
        }
        end.increment()
        threads.wait()
        #expect(most <= 2)
        #expect(steps.now > 10)
    }

    @Test func aStepAndWritersAreNeverInsideTogether() {
        let gate = FileGate()
        let inside = Mutex((steps: 0, writers: 0, most: 0, wrong: 0))
        let threads = DispatchGroup()
        for _ in 0..<3 {
            DispatchQueue(label: "writer").async(group: threads) {
                for _ in 0..<2000 {
                    guard (try? gate.enter()) != nil else { return inside.withLock { $0.wrong += 1 } }
                    inside.withLock { inside in
                        inside.writers += 1
                        if inside.steps > 0 { inside.wrong += 1 }
                    }
                    inside.withLock { $0.writers -= 1 }
                    gate.leave()
                }
            }
        }
        for _ in 0..<2 {
            DispatchQueue(label: "stepper").async(group: threads) {
                for _ in 0..<1000 where gate.enterForStep(waiting: .microseconds(50)) {
                    inside.withLock { inside in
                        inside.steps += 1
                        inside.most += 1
                        if inside.writers > 0 || inside.steps > 1 { inside.wrong += 1 }
                    }
                    inside.withLock { $0.steps -= 1 }
                    gate.leaveStep()
                }
            }
        }
        #expect(threads.wait(timeout: .now() + 60) == .success)
        #expect(inside.withLock { $0.wrong } == 0)
        #expect(inside.withLock { $0.most } > 0)
    }

    @Test func aStepGivesUpWhenAWriterStays() throws {
        let gate = FileGate()
        try gate.enter()
        #expect(!gate.enterForStep(waiting: .milliseconds(5)))
        try gate.enter()
        gate.leave()
        gate.leave()
        #expect(gate.enterForStep(waiting: .milliseconds(5)))
        gate.leaveStep()
    }

    @Test func whoMakesAStepDoesNotWaitForItsEnd() throws {
        let gate = FileGate()
        #expect(gate.enterForStep(waiting: .milliseconds(5)))
        let error = #expect(throws: MigrationError.self) { try gate.enter() }
        #expect(error?.code == .misuse)
        gate.leaveStep()
        try gate.enter()
        gate.leave()
    }
}
