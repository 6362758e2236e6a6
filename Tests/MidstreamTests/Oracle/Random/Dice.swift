/// A random generator whose numbers depend only on its seed.
///
/// Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
struct SplitMix64 {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

/// The random choices of one case.
final class Dice {
    private var generator: SplitMix64

    /// - Parameters:
    ///   - seed: The run's seed.
    ///   - number: The case's number in the run.
    init(seed: UInt64, number: Int) {
        var mixer = SplitMix64(seed: seed)
        let base = mixer.next()
        generator = SplitMix64(seed: base ^ (UInt64(truncatingIfNeeded: number) &* 0xd134_2543_de82_ef95))
    }

    /// A number from 0 to `count` - 1.
    func below(_ count: Int) -> Int {
        Int(generator.next() % UInt64(max(count, 1)))
    }

    func between(_ low: Int, _ high: Int) -> Int {
        low + below(high - low + 1)
    }

    /// `true` in `chance` of a hundred times.
    func percent(_ chance: Int) -> Bool {
        below(100) < chance
    }

    func pick<Element>(_ elements: [Element]) -> Element {
        elements[below(elements.count)]
    }

    /// One of the elements, each as often as its weight says.
    func weighted<Element>(_ elements: [(Int, Element)]) -> Element {
        var left = below(elements.reduce(0) { $0 + $1.0 })
        for (weight, element) in elements {
            if left < weight { return element }
            left -= weight
        }
        return elements[0].1
    }

    func shuffled<Element>(_ elements: [Element]) -> [Element] {
        var result = elements
        guard result.count > 1 else { return result }
        for index in stride(from: result.count - 1, to: 0, by: -1) { result.swapAt(index, below(index + 1)) }
        return result
    }

    /// Some of the elements, at least one.
    func some<Element>(_ elements: [Element], atMost limit: Int = 100) -> [Element] {
        Array(shuffled(elements).prefix(between(1, min(limit, elements.count))))
    }
}
