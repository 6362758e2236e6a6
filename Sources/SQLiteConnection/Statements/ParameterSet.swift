/// A set of a statement's parameters, by their numbers from 1.
struct ParameterSet {
    /// The parameters up to 64, one bit for each. Few statements have more parameters.
    private var low: UInt64
    /// The other parameters, 64 in each number.
    private var high: [UInt64]

    /// The parameters from 1 to `count`.
    init(upTo count: Int) {
        low = Self.bits(count)
        high = []
        for first in stride(from: 64, to: count, by: 64) { high.append(Self.bits(count - first)) }
    }

    /// A number whose lowest `count` bits are set.
    private static func bits(_ count: Int) -> UInt64 { count >= 64 ? .max : (1 << UInt64(max(count, 0))) - 1 }

    var isEmpty: Bool { low == 0 && high.allSatisfy { $0 == 0 } }

    /// The numbers, in ascending order.
    var numbers: [Int] { (1...64 * (1 + high.count)).filter(contains) }

    private func contains(_ number: Int) -> Bool {
        let (word, bit) = (number - 1).quotientAndRemainder(dividingBy: 64)
        return (word == 0 ? low : high[word - 1]) & 1 << UInt64(bit) != 0
    }

    /// Takes a number out. A number that the statement does not have is not in the set.
    mutating func remove(_ number: Int) {
        let (word, bit) = (number - 1).quotientAndRemainder(dividingBy: 64)
        if word == 0 {
            low &= ~(1 << UInt64(bit))
        } else if high.indices.contains(word - 1) {
            high[word - 1] &= ~(1 << UInt64(bit))
        }
    }

    mutating func formIntersection(_ other: Set<Int>) {
        for number in numbers where !other.contains(number) { remove(number) }
    }
}
