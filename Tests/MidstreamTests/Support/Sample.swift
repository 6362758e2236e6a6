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

    /// Combinations, such that each of the first and of the second is among them where there are enough.
    static func pairs<First, Second>(_ firsts: [First], _ seconds: [Second]) -> [(First, Second)] {
        firsts.enumerated().flatMap { row, first in
            seconds.enumerated().filter { (row + $0.offset) % share == 0 }.map { (first, $0.element) }
        }
    }
}
