import Midstream
import SQLiteConnection

extension Plan {
    /// Brings to its end what is left of the migration, and looks at the files with SQLite alone.
    func checkEnd() throws {
        let database = try open()
        var steps = 0
        while try !database.stepMigration().isFinished, steps < 10_000 { steps += 1 }
        database.close()
        let new = try Connection(path: target)
        defer { new.close() }
        try checkFile(new, "the target")
        let old = Files.exists(source) ? try Connection(path: source) : nil
        defer { old?.close() }
        if let old { try checkFile(old, "the source") }
        // One table may have moved before the migration of the other was cancelled.
        let places = try ["accounts", "savings"].map { table in
            let isHere = try new.fetchOne("SELECT 1 FROM \(table) LIMIT 1") != nil
            return (connection: isHere ? new : old, table: isHere ? table : "old_" + table, isHere: isHere)
        }
        try checkRows(places.map { ($0.connection, $0.table) })
        let returned = places.count { !$0.isHere }
        for lane in 0..<returned { count(.returns, lane) }
        if returned > 0, course == .moves { note("nobody cancelled the migration, and a table is empty") }
        if returned == 0, course == .returns, count(of: .cancellations) > 0 {
            note("the migration was cancelled, and no table has returned")
        }
        // If a source table of the same file was to be kept, it keeps its fences after its rows have moved.
        if returned == 2 || !(isSameFile && retirement == .keep) { try checkNames(new, "the target") }
        if returned == 2, let old { try checkNames(old, "the source") }
    }

    private func checkFile(_ connection: Connection, _ name: String) throws {
        let integrity = try connection.fetchAll("PRAGMA integrity_check")
        if integrity.first?[0] != .text("ok") { note("\(name): \(integrity)") }
    }

    private func checkNames(_ connection: Connection, _ name: String) throws {
        let left = try connection.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE '%midstream%'")
        if !left.isEmpty { note("\(name) still has \(left.map(\.values))") }
    }

    private func checkRows(_ places: [(connection: Connection?, table: String)]) throws {
        let rows = try places.map { place in
            try place.connection?.fetchOne("SELECT count(*), sum(amount) FROM \(place.table)")?.values ?? []
        }
        if let problem = RoundReader.problem(rows.flatMap { $0 }, self, mayBeEmpty: false) {
            note("at the end: \(problem)")
        }
        guard let (connection, table) = places.first else { return }
        for lane in 0..<Self.lanes {
            let found: Int64? = try connection?.fetchValue("SELECT stamp FROM \(table) WHERE id = \(lane + 1)")
            // The last process may have been killed after its commit, and before it could tell of it.
            let told = committed(lane)
            if found != told, found != told + 1 {
                note("writer \(lane): \(told) were committed, and \(found.map(String.init) ?? "none") are found")
            }
        }
    }
}
