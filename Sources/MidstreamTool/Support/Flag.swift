internal import Synchronization

/// A flag that can be raised once, on any thread.
final class Flag: Sendable {
    private let state = Atomic<Bool>(false)

    func raise() { state.store(true, ordering: .releasing) }
    var isRaised: Bool { state.load(ordering: .acquiring) }
}

/// A number that counts up, on any thread.
final class Counter: Sendable {
    private let state = Atomic<Int>(0)

    func increment() { state.add(1, ordering: .relaxed) }
    var count: Int { state.load(ordering: .relaxed) }
}
