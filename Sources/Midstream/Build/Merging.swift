internal import SQLText
internal import SQLiteConnection

/// Brings into a build what the application has written since: the rows of superseded keys leave, and the live table's come in.
///
/// What was merged may be written again. So each row is compared with the live table's, and when the live table adopts the build, all are
/// once more.
struct Merging {
    let building: Building
    let build: TableBuild
    /// The tables that have the live rows, and those that were built.
    private let live: String
    private let built: String

    /// - Parameter isExchanged: Whether the live table has what was built by now, and the build has the live rows.
    init(_ building: Building, _ build: TableBuild, isExchanged: Bool = false) {
        self.building = building
        self.build = build
        let (live, built) = (build.sql.target, build.built.target)
        (self.live, self.built) = isExchanged ? (built, live) : (live, built)
    }

    private var key: KeySQL { build.sql.key }
    private var statements: InternalStatements { building.stepper.statements }

    private func names(_ columns: [String], of table: String) -> [String] { columns.map { "\(table).\($0)" } }

    /// Whether a row that was built, `midstream_built`, is the live one, `midstream_live`, in each bit.
    private var isSame: String {
        let columns = build.sql.writtenColumns.map(SQLIdentifier.quoted)
        let (own, other) = (names(columns, of: "midstream_built"), names(columns, of: "midstream_live"))
        let equal = zip(own, other).map { "\($0) COLLATE BINARY IS \($1) AND typeof(\($0)) = typeof(\($1))" }
        let keys = key.equals(names(key.target, of: "midstream_built"), names(key.target, of: "midstream_live"))
        return ([keys, "\(RowHash.call(own)) = \(RowHash.call(other))"] + VerificationSQL.conjunctions(equal))
            .joined(separator: " AND ")
    }

    /// The keys whose rows in the build may be others than the live ones.
    private var written: String {
        let ledger = "SELECT \(KeySQL.list(key.ledger)) FROM \(build.sql.ledger)"
        return build.merges ? "\(ledger) UNION SELECT key FROM \(build.merged)" : ledger
    }

    /// What follows FROM for the rows that have to leave.
    private var outdated: String {
        "\(built) AS midstream_built WHERE \(key.tupleOfSought(names(key.target, of: "midstream_built"))) IN (\(written)) "
            + "AND NOT EXISTS (SELECT 1 FROM \(live) AS midstream_live WHERE \(isSame))"
    }

    /// The same for those that have to come.
    private var missing: String {
        let keys = key.equals(names(key.target, of: "midstream_built"), names(key.target, of: "midstream_live"))
        return "\(live) AS midstream_live WHERE NOT EXISTS (SELECT 1 FROM \(built) AS midstream_built WHERE \(keys))"
    }

    var deleteOutdated: String {
        let keys = KeySQL.list(names(key.target, of: "midstream_built"))
        return "DELETE FROM \(built) WHERE \(key.tupleOfSought(key.target)) IN (SELECT \(keys) FROM \(outdated))"
    }

    /// After those have left.
    var insertMissing: String {
        let columns = build.sql.insertedColumns
        return "INSERT OR ABORT INTO \(built)(\(columns)) SELECT \(columns) FROM \(missing)"
    }

    /// How many rows have to leave or to come, as far as they are not more than that.
    func count(atMost most: Int64) throws -> Int64 {
        try [outdated, missing].reduce(0) { sum, rows in
            let sql = "SELECT count(*) FROM (SELECT 1 FROM \(rows) LIMIT \(most + 1))"
            return sum + (try building.connection.fetchValue(Int64.self, sql) ?? 0)
        }
    }

    // MARK: One by one

    /// Sees to the next key, if its row has to leave, or to come.
    ///
    /// - Returns: The key; `nil` behind the last one.
    func mergeOne(after cursor: [ExactValue]?, comingIn: Bool) throws -> Int64? {
        let tables =
            comingIn
            ? [(live, key.target[0])]
            : [(build.sql.ledger, KeySQL.list(key.ledger)), (build.merged, KeySQL.list(key.ledger))]
        let nearest = tables.map { "SELECT min(\($1)) AS key FROM \($0) WHERE \($1) >= ?1" }
        let next = try statements.statement("SELECT min(key) FROM (\(nearest.joined(separator: " UNION ALL ")))")
        defer { next.reset() }
        var first = Int64.min
        if case .integer(let last)? = cursor?.first {
            guard last < .max else { return nil }
            first = last + 1
        }
        try next.bind(first, at: 1)
        guard try next.step(), !next.isNull(at: 0) else { return nil }
        let row = next.int64(at: 0)
        if comingIn { try comeIn(row) } else { try leave(row) }
        return row
    }

    private func holds(_ condition: String, _ row: Int64) throws -> Bool {
        let statement = try statements.statement("SELECT EXISTS (SELECT 1 FROM \(condition))")
        defer { statement.reset() }
        try statement.bind(row, at: 1)
        return try statement.step() && statement.int64(at: 0) != 0
    }

    private func run(_ text: String, _ row: Int64) throws {
        _ = try statements.run(text, by: { try $0.stepOfCopy() }) { try $0.bind(row, at: 1) }
    }

    private func leave(_ row: Int64) throws {
        let isIt = "midstream_built.\(key.target[0]) = ?1"
        guard
            try holds(
                "\(built) AS midstream_built WHERE \(isIt) AND NOT EXISTS (SELECT 1 FROM \(live) AS midstream_live WHERE \(isSame))",
                row
            )
        else { return }
        for index in build.parts {
            let values = KeySQL.list(index.values)
            let belongs = index.has(nulls: false)
            let entry = try statements.statement(
                "SELECT \(values) FROM \(build.rows) WHERE \(key.target[0]) = ?1\(belongs.isEmpty ? "" : " AND " + belongs)"
            )
            defer { entry.reset() }
            try entry.bind(row, at: 1)
            if try entry.step() {
                let reader = RowReader(entry)
                let found = index.values.indices.map { reader.exactValue(at: $0) }
                let gone = try statements.run("DELETE FROM \(index.relation) WHERE \(index.isEntry)") {
                    try $0.bind(.columns(found), at: 1)
                }
                guard gone == 1 else {
                    throw SQLiteError(code: .corrupt, message: "an entry is not where it was built")
                }
            } else if let name = index.terms.last?.name, !index.nullable.isEmpty {
                try run("DELETE FROM \(index.waiting) WHERE \(name) = ?1", row)
                let isGone = building.connection.changes == 1
                let hasEntry = "\(build.rows) WHERE \(key.target[0]) = ?1 AND \(index.has(nulls: true))"
                if try !isGone && holds(hasEntry, row) {
                    throw SQLiteError(code: .corrupt, message: "an entry is not where it was built")
                }
            }
        }
        try run("DELETE FROM \(built) WHERE \(key.target[0]) = ?1", row)
    }

    private func comeIn(_ row: Int64) throws {
        if try holds("\(built) WHERE \(key.target[0]) = ?1", row) { return }
        let columns = build.sql.insertedColumns
        try run("INSERT INTO \(built)(\(columns)) SELECT \(columns) FROM \(live) WHERE \(key.target[0]) = ?1", row)
        for index in build.parts {
            for (table, nulls) in [(index.relation, false), (index.waiting, true)]
            where !nulls || !index.nullable.isEmpty {
                let belongs = index.has(nulls: nulls)
                try run(
                    "INSERT INTO \(table) SELECT \(KeySQL.list(index.values)) FROM \(build.rows) "
                        + "WHERE \(key.target[0]) = ?1\(belongs.isEmpty ? "" : " AND " + belongs)",
                    row
                )
            }
        }
        try run("INSERT OR IGNORE INTO \(build.merged) VALUES (?1)", row)
    }
}
