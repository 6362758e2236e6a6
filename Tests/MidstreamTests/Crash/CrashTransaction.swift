import Midstream
import SQLiteConnection
import SQLiteFeatures

/// One transaction of the application, written in one of the possible ways.
enum CrashTransaction: CustomStringConvertible {
    /// In a write block.
    case block([String])
    /// One statement that commits by itself.
    case single(String)
    /// Between a BEGIN and a COMMIT of the application's own.
    case manual([String])

    var description: String {
        switch self {
        case .block(let statements): "block \(statements)"
        case .single(let statement): "single \(statement)"
        case .manual(let statements): "manual \(statements)"
        }
    }

    func run(on database: Database) throws {
        switch self {
        case .block(let statements):
            try database.write { access in for statement in statements { try access.execute(statement) } }
        case .single(let statement):
            try database.execute(statement)
        case .manual(let statements):
            try database.withoutTransaction { access in
                try access.execute("BEGIN")
                for statement in statements { try access.execute(statement) }
                try access.execute("COMMIT")
            }
        }
    }

    /// Runs the transaction with SQLite alone, on tables that are whole.
    func run(natively connection: Connection) throws {
        switch self {
        case .block(let statements), .manual(let statements):
            try connection.transaction { for statement in statements { try connection.execute(statement) } }
        case .single(let statement):
            try connection.execute(statement)
        }
    }

    /// Transactions that reach rows on both sides of a migration, however far it has come.
    static func sequence(count: Int, seed: UInt64, secondTable: String) -> [CrashTransaction] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { number in
            let (a, b) = (Int.random(in: 1...160, using: &random), Int.random(in: 1...160, using: &random))
            let owner = "'o\(Int.random(in: 0...8, using: &random))'"
            let change = [
                "UPDATE accounts SET amount = amount - 7 WHERE id = \(a)",
                "UPDATE accounts SET amount = amount + 7 WHERE id = \(b)",
            ]
            switch number % 12 {
            case 0: return .block(change)
            case 1:
                return .single("INSERT OR REPLACE INTO accounts(owner, code, amount) VALUES (\(owner), 'c\(a)', \(b))")
            case 2: return .single("DELETE FROM accounts WHERE id BETWEEN \(a) AND \(a + 3)")
            case 3: return .single("UPDATE accounts SET amount = amount + 1 WHERE owner = \(owner)")
            case 4: return .single("INSERT INTO accounts(owner, code, amount) VALUES (\(owner), 'n\(number)', \(a))")
            case 5:
                return .block([
                    "INSERT INTO \(secondTable)(owner, code, amount) VALUES (\(owner), 'm\(number)', \(b))",
                    "UPDATE \(secondTable) SET owner = \(owner) WHERE id IN (\(a), \(b), \(a / 2))",
                    change[0], change[1],
                    "DELETE FROM accounts WHERE code = 'c\((a + b) / 2)'",
                ])
            case 6 where SQLiteFeature.upsert.isAvailable:
                return .single(
                    "INSERT INTO accounts(owner, code, amount) VALUES (\(owner), 'c\(b)', 1) "
                        + "ON CONFLICT(code) DO UPDATE SET amount = amount + 100"
                )
            case 7:
                return .manual(
                    ["SAVEPOINT s", "DELETE FROM accounts WHERE owner = \(owner)", "ROLLBACK TO s", "RELEASE s"]
                        + change
                )
            case 8:
                return .block(
                    ["INSERT OR IGNORE INTO accounts(id, owner, code, amount) VALUES (\(a), 'x', 'c\(b)', 0)"] + change
                )
            case 9: return .single("UPDATE OR REPLACE accounts SET code = 'c\(a)' WHERE id = \(b)")
            case 10: return .manual(change + ["DELETE FROM \(secondTable) WHERE id = \(b)"])
            default: return .block(["UPDATE accounts SET id = id + 1000 WHERE id = \(a)"] + change)
            }
        }
    }
}
