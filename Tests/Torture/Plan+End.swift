import Midstream
import SQLiteConnection

extension Plan {
    /// Brings to its end what is left, and looks at the files by SQLite alone.
    func checkEnd() throws {
        let database = try open()
        var steps = 0
        while try !database.stepMigration().isFinished, steps < 10_000 { steps += 1 }
        database.close()
        let new = try Connection(path: target)
        defer { new.close() }
        try checkFile(new, "the target")
        let names = try new.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE '%midstream%'")
        let hasReturned = try new.fetchOne("SELECT 1 FROM accounts LIMIT 1") == nil
        // A source table that was to be kept keeps its fences.
        if !names.isEmpty, !(isSameFile && retirement == .keep && !hasReturned) {
            note("the target still has \(names)")
        }
        if !hasReturned { try checkRows(new, "accounts", "savings") }
        guard Files.exists(source) else {
            if hasReturned || retirement != .deleteFileWhenEmpty { note("the source is gone") }
            return
        }
        let old = try Connection(path: source)
        defer { old.close() }
        try checkFile(old, "the source")
        guard hasReturned else { return }
        try checkRows(old, "old_accounts", "old_savings")
        if course == .moves { note("nobody cancelled the migration, and the target is empty") }
        let claims = try old.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE '%midstream%'")
        if !claims.isEmpty { note("the source still has \(claims)") }
        if try new.fetchOne("SELECT 1 FROM savings LIMIT 1") != nil { note("savings are still in the target") }
    }

    private func checkFile(_ connection: Connection, _ name: String) throws {
        let integrity = try connection.fetchAll("PRAGMA integrity_check")
        if integrity.first?[0] != .text("ok") { note("\(name): \(integrity)") }
    }

    private func checkRows(_ connection: Connection, _ accounts: String, _ savings: String) throws {
        let reads = RoundReader.whole.replacing("accounts", with: accounts).replacing("savings", with: savings)
        if let problem = RoundReader(plan: self, lane: 0).check(try connection.fetchOne(reads)) {
            note("at the end: \(problem)")
        }
        for lane in 0..<Self.lanes {
            let found = try connection.fetchValue(Int64.self, "SELECT stamp FROM \(accounts) WHERE id = \(lane + 1)")
            // The last process may have been killed between its commit and the word of it.
            let told = committed(lane)
            if found != told && found != told + 1 {
                note("writer \(lane): \(told) were committed, and \(found.map(String.init) ?? "none") are found")
            }
        }
    }
}
