import Midstream
import SQLiteConnection

/// One transaction of a writer. It keeps the difference of the row counts and the sum of the amounts, and counts
/// itself.
struct RoundTransaction {
    let plan: Plan
    let lane: Int

    /// Thrown in the middle of a transaction, which must leave no trace.
    private struct GivenUp: Error {}

    /// - Parameter stamp: How many of the lane's transactions are known to be committed. The first transaction finds it
    ///   out, and each one raises it.
    func run(on database: Database, stamp: inout Int64?, _ random: inout SeededGenerator) throws {
        let number = lane + 1
        var isDone = false
        do {
            try database.write { access in
                let found = try access.fetchValue(
                    Int64.self,
                    "SELECT stamp FROM accounts WHERE id = ? AND EXISTS (SELECT 1 FROM savings)",
                    [number]
                )
                guard let found else {
                    if !plan.mayBeEmpty { plan.note("writer \(lane): its row is gone") }
                    return
                }
                let known = stamp ?? known(found)
                if found != known {
                    plan.note("writer \(lane): \(known) transactions were committed, and \(found) are found")
                }
                if Int.random(in: 0..<8, using: &random) > 0 {
                    try access.execute("UPDATE accounts SET stamp = stamp + 1 WHERE id = ?", [number])
                } else {
                    try access.execute(
                        "REPLACE INTO accounts SELECT id, owner, code, amount, stamp + 1 FROM accounts WHERE id = ?",
                        [number]
                    )
                }
                for _ in 0..<Int.random(in: 1...3, using: &random) { try change(access, &random) }
                if Int.random(in: 0..<10, using: &random) == 0 { throw GivenUp() }
                stamp = known
                isDone = true
            }
        } catch is GivenUp {
            return
        }
        guard isDone else { return }
        plan.markCommitted(lane)
        stamp = (stamp ?? 0) + 1
        plan.count(.transactions, lane)
    }

    /// How many of the lane's transactions are committed. A process that was killed after its commit, before it could
    /// report it, has left one more than were reported.
    private func known(_ found: Int64) -> Int64 {
        let told = plan.committed(lane)
        guard found == told + 1 else { return told }
        plan.markCommitted(lane)
        return found
    }

    // MARK: Changes

    /// The key of a row that is not the row of a writer.
    private func key(_ access: DatabaseAccess, _ table: String, _ random: inout SeededGenerator) throws -> Int64? {
        try access.fetchValue(
            Int64.self,
            "SELECT id FROM \(table) WHERE id >= ? ORDER BY id LIMIT 1",
            [Int.random(in: (Plan.lanes + 1)...(2 * plan.rows), using: &random)]
        )
    }

    /// The column and the value that give a new row its key, if SQLite does not choose the key.
    private func newKey(_ table: String) -> (column: String, value: String) {
        plan.hasRowIDs ? ("", "") : ("id, ", "(SELECT max(id) + 1 FROM \(table)), ")
    }

    private func change(_ access: DatabaseAccess, _ random: inout SeededGenerator) throws {
        let amount = Int64.random(in: 1...50, using: &random)
        let tables = ["accounts", "savings"]
        let (from, to) = (tables.randomElement(using: &random) ?? "", tables.randomElement(using: &random) ?? "")
        guard let a = try key(access, from, &random), let b = try key(access, to, &random), from != to || a != b else {
            return
        }
        switch Int.random(in: 0..<9, using: &random) {
        case 0:
            // Each table gets one row more.
            for (table, amount) in [("accounts", amount), ("savings", -amount)] {
                let key = newKey(table)
                try access.execute(
                    "INSERT INTO \(table)(\(key.column)owner, amount, stamp) VALUES (\(key.value)'o' || ?, ?, 0)",
                    [amount % 9, amount]
                )
            }
        case 1:
            // Each table loses a row.
            guard from != to else { return }
            let values = try [(from, a), (to, b)].compactMap { table, key in
                try access.fetchValue(Int64.self, "SELECT amount FROM \(table) WHERE id = ?", [key])
            }
            try access.execute("DELETE FROM \(from) WHERE id = ?", [a])
            try access.execute("DELETE FROM \(to) WHERE id = ?", [b])
            try access.execute(
                "UPDATE accounts SET amount = amount + ? WHERE id = ?",
                [values.reduce(0, +), lane + 1]
            )
        case 2:
            for (table, key, amount) in [(from, a, amount), (to, b, -amount)] {
                try access.execute(
                    "REPLACE INTO \(table) SELECT id, owner, code, amount + ?, stamp FROM \(table) WHERE id = ?",
                    [amount, key]
                )
            }
        case 3 where Connection.libraryVersionNumber >= 3_024_000:
            for (table, key, amount) in [(from, a, amount), (to, b, -amount)] {
                try access.execute(
                    "INSERT INTO \(table)(id, amount, stamp) VALUES (?, ?, 0) "
                        + "ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
                    [key, amount]
                )
            }
        case 4:
            // The row goes to another place in the order of the keys.
            try access.execute("UPDATE \(from) SET id = (SELECT max(id) FROM \(from)) + 1 WHERE id = ?", [a])
        case 5:
            try access.execute(
                "UPDATE \(from) SET owner = 'o' || (id % 7) WHERE id BETWEEN ? AND ?",
                [a, a + Int64.random(in: 1...40, using: &random)]
            )
        case 6:
            // The row gets a code that another row has, or had.
            try access.execute("UPDATE OR IGNORE \(from) SET code = 'c' || ? WHERE id = ?", [b, a])
        case 7:
            // The row leaves one place and comes in at another.
            let key = newKey(from)
            try access.execute(
                "INSERT INTO \(from)(\(key.column)owner, amount, stamp) "
                    + "SELECT \(key.value)owner, amount, stamp FROM \(from) WHERE id = ?",
                [a]
            )
            try access.execute("DELETE FROM \(from) WHERE id = ?", [a])
        default:
            try access.execute("UPDATE \(from) SET amount = amount - ? WHERE id = ?", [amount, a])
            try access.execute("UPDATE \(to) SET amount = amount + ? WHERE id = ?", [amount, b])
        }
    }
}
