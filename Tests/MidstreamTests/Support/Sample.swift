/// How much a test tries, if it could go on without end or takes long. `make test` runs such tests with four builds.
/// One of the builds is optimized, and tries everything; debug builds, in which each try takes several times as long,
/// try a part.
enum Sample {
    #if DEBUG
        static let share = 4
    #else
        static let share = 1
    #endif

    static func size(_ count: Int) -> Int { max(1, count / share) }

    /// One element of each `share`; `first` chooses with which one the part begins.
    static func part<Element>(of all: some Collection<Element>, from first: Int = 0) -> [Element] {
        all.enumerated().filter { ($0.offset + first) % share == 0 }.map(\.element)
    }

    /// One number from each of about `wanted` equal parts of 1...count. `text` chooses the numbers: the same text, the
    /// same numbers.
    static func points(_ count: Int, about wanted: Int, chosenBy text: String) -> [Int] {
        var random = SeededGenerator(seed: hash("\(text), \(count)"))
        let parts = min(max(1, wanted), count)
        return (0..<max(0, parts)).map { part in
            Int.random(in: (1 + count * part / parts)...(count * (part + 1) / parts), using: &random)
        }
    }

    /// The number of a text, which is the same in each process. Source: FNV-1a,
    /// <http://www.isthe.com/chongo/tech/comp/fnv/>.
    static func hash(_ text: String) -> UInt64 {
        text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }

    /// Some of the combinations, with each of `firsts` and each of `seconds` among them, if there are enough.
    static func pairs<First, Second>(_ firsts: [First], _ seconds: [Second]) -> [(First, Second)] {
        firsts.enumerated().flatMap { row, first in
            seconds.enumerated().filter { (row + $0.offset) % share == 0 }.map { (first, $0.element) }
        }
    }
}
