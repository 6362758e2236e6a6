/// How much is tried of what could be tried without end, or takes long. `make test` tries it with four builds, of which one
/// is optimized and tries all; in debug, where each takes several times as long, it is a part.
enum Sample {
    #if DEBUG
        static let share = 4
    #else
        static let share = 1
    #endif

    static func size(_ count: Int) -> Int { max(1, count / share) }

    /// Every so-many-th, from one on that a number chooses.
    static func part<Element>(of all: some Collection<Element>, from first: Int = 0) -> [Element] {
        all.enumerated().filter { ($0.offset + first) % share == 0 }.map(\.element)
    }

    /// Of 1...count, one number in each of as many equal parts as are wanted. A text chooses them, the same ones each time.
    static func points(_ count: Int, about wanted: Int, chosenBy text: String) -> [Int] {
        var random = SeededGenerator(seed: hash("\(text), \(count)"))
        let parts = min(max(1, wanted), count)
        return (0..<max(0, parts)).map { part in
            Int.random(in: (1 + count * part / parts)...(count * (part + 1) / parts), using: &random)
        }
    }

    /// A text's number, the same in each process. Source: FNV-1a, <http://www.isthe.com/chongo/tech/comp/fnv/>.
    static func hash(_ text: String) -> UInt64 {
        text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }

    /// Combinations, such that each of the first and of the second is among them where there are enough.
    static func pairs<First, Second>(_ firsts: [First], _ seconds: [Second]) -> [(First, Second)] {
        firsts.enumerated().flatMap { row, first in
            seconds.enumerated().filter { (row + $0.offset) % share == 0 }.map { (first, $0.element) }
        }
    }
}
