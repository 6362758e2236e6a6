/// How far tables have moved while a script runs.
struct LogicMode: Sendable, CustomStringConvertible {
    enum Movement: Sendable {
        /// So many of 100 rows of each table have moved, at least one and not all unless it is 0 or 100.
        case frozen(percent: Int64)
        /// So many rows of each table move between any two records.
        case stepping(rows: Int64)
    }

    var movement: Movement
    /// Whether tables that were created, drained or moved completely are moved out again, so that every table is always
    /// moving. Otherwise each is moved once, and those that are created later are the target's own.
    var movesAgain: Bool
    /// Whether tables begin to move before the first statement that neither creates nor fills one, and not before the
    /// first query.
    var startsEarly: Bool

    init(_ movement: Movement, movesAgain: Bool = true, startsEarly: Bool = false) {
        self.movement = movement
        self.movesAgain = movesAgain
        self.startsEarly = startsEarly
    }

    var description: String {
        var text =
            switch movement {
            case .frozen(let percent): "frozen at \(percent) %"
            case .stepping(let rows): "stepping by \(rows)"
            }
        if startsEarly { text += " from the first use" }
        if !movesAgain { text += " once" }
        return text
    }

    static let all: [LogicMode] =
        [0, 1, 50, 99, 100].flatMap { percent in
            [LogicMode(.frozen(percent: percent)), LogicMode(.frozen(percent: percent), movesAgain: false)]
        } + [
            LogicMode(.frozen(percent: 0), startsEarly: true),
            LogicMode(.frozen(percent: 50), startsEarly: true),
            LogicMode(.frozen(percent: 100), startsEarly: true),
            LogicMode(.stepping(rows: 1)),
            LogicMode(.stepping(rows: 1), movesAgain: false),
            LogicMode(.stepping(rows: 1), startsEarly: true),
        ]

    /// How many of a table's rows have moved before the script goes on.
    func rowsMoved(of total: Int64) -> Int64 {
        guard case .frozen(let percent) = movement else { return 0 }
        switch percent {
        case ...0: return 0
        case 100...: return total
        default:
            let share = total * percent / 100
            return total < 2 ? share : min(max(1, share), total - 1)
        }
    }
}
