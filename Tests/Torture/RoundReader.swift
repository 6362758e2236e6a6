import Midstream
import SQLiteConnection

/// What every reader must find at every moment.
struct RoundReader {
    let plan: Plan
    let lane: Int

    /// Reads both tables in one statement.
    static let whole = """
        SELECT (SELECT count(*) FROM accounts), (SELECT sum(amount) FROM accounts),
            (SELECT count(*) FROM savings), (SELECT sum(amount) FROM savings)
        """

    private static let byScan = """
        SELECT owner, count(*), sum(amount), sum(id) FROM accounts GROUP BY owner
        UNION ALL SELECT 's' || owner, count(*), sum(amount), sum(id) FROM savings GROUP BY owner
        """

    /// - Parameter values: The row counts and the sums of both tables.
    /// - Returns: What is wrong.
    static func problem(_ values: [SQLiteValue], _ plan: Plan, mayBeEmpty: Bool) -> String? {
        guard values.count == 4, case .integer(let accounts) = values[0], case .integer(let savings) = values[2] else {
            return "nothing is read"
        }
        if mayBeEmpty, accounts == 0 || savings == 0 { return nil }
        guard case .integer(let first) = values[1], case .integer(let second) = values[3] else {
            return "a table is empty"
        }
        guard accounts - savings == plan.difference, first + second == plan.total else {
            return "\(accounts) and \(savings) rows, sum \(first) + \(second)"
        }
        return nil
    }

    private func note(_ problem: String?, _ place: String) {
        if let problem { plan.note("reader, \(place): \(problem)") }
    }

    func readStatement(_ database: Database) throws {
        note(
            Self.problem(try database.fetchOne(Self.whole)?.values ?? [], plan, mayBeEmpty: plan.mayBeEmpty),
            "a statement"
        )
        plan.count(.reads, lane)
    }

    /// Reads everything twice, by scans and by indexes, in one transaction.
    func readTransaction(_ access: DatabaseAccess, resting: UInt32, _ random: inout SeededGenerator) throws {
        let first = try access.fetchOne(Self.whole)
        note(Self.problem(first?.values ?? [], plan, mayBeEmpty: plan.mayBeEmpty), "a transaction")
        let owners = try access.fetchAll(Self.byScan)
        RoundProcess.rest(resting)
        for row in owners.shuffled(using: &random).prefix(3) {
            guard case .text(let name) = row[0] else { continue }
            let (table, owner) = name.hasPrefix("s") ? ("savings", String(name.dropFirst())) : ("accounts", name)
            let again = try access.fetchOne(
                "SELECT count(*), sum(amount), sum(id) FROM \(table) WHERE owner = ?",
                [owner]
            )
            if again.map({ [$0[0], $0[1], $0[2]] }) != [row[1], row[2], row[3]] {
                note("\(name): \(row) by scan, \(again.map { "\($0)" } ?? "nothing") by index", "a transaction")
            }
        }
        let keys = try access.fetchAll("SELECT id, amount FROM savings WHERE id >= ? LIMIT 3", [plan.rows / 2])
        for row in keys where try access.fetchOne("SELECT id, amount FROM savings WHERE id = ?", [row[0]]) != row {
            note("a row is not found by its key", "a transaction")
        }
        if try access.fetchOne(Self.whole) != first { note("not repeatable", "a transaction") }
        plan.count(.reads, lane)
    }

    func read(_ database: Database, _ random: inout SeededGenerator) throws {
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1: try readStatement(database)
        case 2: try database.write { try readTransaction($0, resting: 0, &random) }
        case 3: try database.read { try readTransaction($0, resting: plan.hasWAL ? 100_000 : 5000, &random) }
        default: try database.read { try readTransaction($0, resting: 0, &random) }
        }
    }
}
