internal import SQLText
internal import SQLiteConnection

/// Brings into a build what the application has written since: rows with superseded keys leave the build, and the live
/// table's rows come in.
///
/// A row that was merged may be written again. So each row is compared with the live table's. All rows are compared
/// once more when the live table adopts the build, unless nobody has written the file since.
struct Merging {
    let building: Building
    let build: TableBuild
    /// The table that has the live rows, and the table that has the built rows.
    private let live: String
    private let built: String

    /// - Parameter isExchanged: Whether the live table has the built rows by now, and the build has the live rows.
    init(_ building: Building, _ build: TableBuild, isExchanged: Bool = false) {
        self.building = building
        self.build = build
        let (live, built) = (build.sql.target, build.table)
        (self.live, self.built) = isExchanged ? (built, live) : (live, built)
    }

    private var key: KeySQL { build.sql.key }
    private var statements: InternalStatements { building.stepper.statements }

    private func names(_ columns: [String], of table: String) -> [String] { columns.map { "\(table).\($0)" } }

    /// A condition: whether a built row, `midstream_built`, is the live row, `midstream_live`, bit for bit.
    private var isSame: String {
        let columns = build.sql.writtenColumns.map(SQLIdentifier.quoted)
        let (own, other) = (names(columns, of: "midstream_built"), names(columns, of: "midstream_live"))
        let equal = zip(own, other).map { "\($0) COLLATE BINARY IS \($1) AND typeof(\($0)) = typeof(\($1))" }
        let keys = key.equals(names(key.target, of: "midstream_built"), names(key.target, of: "midstream_live"))
        // To SQLite, 0.0 and -0.0 are equal.
        let real = columns.indices.filter { build.mayBeReal(columns[$0]) }
        let hashes =
            real.isEmpty ? [] : ["\(RowHash.call(real.map { own[$0] })) = \(RowHash.call(real.map { other[$0] }))"]
        return ([keys] + VerificationSQL.conjunctions(equal) + hashes).joined(separator: " AND ")
    }

    /// Selects the keys whose rows in the build may differ from the live rows.
    private var written: String {
        (build.ledgers + [build.merged]).map { "SELECT \(KeySQL.list(key.ledger)) FROM \($0)" }
            .joined(separator: " UNION ")
    }

    /// What follows FROM in a query for the rows that have to leave the build. SQLite looks them up one by one here: of
    /// several columns that are IN a compound SELECT, SQLite (3.40) looks up all rows.
    private func outdated(among keys: String) -> String {
        let isSought = key.equals(names(key.target, of: "midstream_built"), names(key.ledger, of: "midstream_key"))
        return "(\(keys)) AS midstream_key CROSS JOIN \(built) AS midstream_built WHERE \(isSought) "
            + "AND NOT EXISTS (SELECT 1 FROM \(live) AS midstream_live WHERE \(isSame))\(isNotPending)"
    }

    /// A condition: whether no source has a pending row with the key of a built row. With a table in the middle of a
    /// chain, a key that is superseded in one source may be that of another source's row.
    private var isNotPending: String {
        guard build.feeds.count > 1 else { return "" }
        return build.feeds.map { feed in
            let isOwn = feed.key.equals(feed.key.source, names(key.target, of: "midstream_built"))
            return " AND NOT EXISTS (SELECT 1 FROM \(feed.source) WHERE \(isOwn) AND \(feed.isUnsettled))"
        }.joined()
    }

    /// What follows FROM in a query for the live rows that have to come into the build.
    private var missing: String {
        let keys = key.equals(names(key.target, of: "midstream_built"), names(key.target, of: "midstream_live"))
        return "\(live) AS midstream_live WHERE NOT EXISTS (SELECT 1 FROM \(built) AS midstream_built WHERE \(keys))"
    }

    var deleteOutdated: String {
        let keys = KeySQL.list(names(key.target, of: "midstream_built"))
        return
            "DELETE FROM \(built) WHERE \(key.tupleOfSought(key.target)) IN (SELECT \(keys) FROM \(outdated(among: written)))"
    }

    /// Inserts the missing rows, after the outdated rows have left.
    var insertMissing: String {
        let columns = build.sql.insertedColumns
        return "INSERT OR ABORT INTO \(built)(\(columns)) SELECT \(columns) FROM \(missing)"
    }

    /// How many rows are to be compared, at least. No table is counted beyond `most` + 1 rows.
    func written(atMost most: Int64) throws -> Int64 {
        func count(_ table: String) throws -> Int64 {
            let sql = "SELECT count(*) FROM (SELECT 1 FROM \(table) LIMIT \(most + 1))"
            return try building.connection.fetchValue(Int64.self, sql) ?? 0
        }
        // A row may be in each of these tables.
        let superseded = try build.ledgers.reduce(0) { $0 + (try count($1)) }
        return try [live, build.merged].reduce(superseded) { max($0, try count($1)) }
    }

    /// How many rows have to leave or to come in. Neither is counted beyond `most` + 1 rows.
    func count(atMost most: Int64) throws -> Int64 {
        try [outdated(among: written), missing].reduce(0) { sum, rows in
            let sql = "SELECT count(*) FROM (SELECT 1 FROM \(rows) LIMIT \(most + 1))"
            return sum + (try building.connection.fetchValue(Int64.self, sql) ?? 0)
        }
    }

    // MARK: In slices

    /// Merges the rows with the next `rows` keys: has those leave that are not the live rows, or those come in that are
    /// missing.
    ///
    /// - Parameter lower: The key after which these keys come.
    /// - Returns: The last of the keys, `nil` if there are fewer; and whether all rows could come in. A row may have a
    ///   value that another row has given up only after that row could leave. Such a row comes in when the live table
    ///   adopts the build.
    func merge(after lower: RowKey?, comingIn: Bool, atMost rows: Int64) throws -> (last: RowKey?, isWhole: Bool) {
        let mover = RowMover(statements: statements, sql: build.sql)
        let position = lower.map(Position.after) ?? .start
        let name = comingIn ? "come" : "leave"
        let last = try key.nearest(lower) { shared in
            let range = KeyRange(first: lower == nil ? nil : .after, shared: shared)
            let end = try build.texts.statement("end of those that \(name)", range, statements) {
                "\(keys(range, comingIn)) ORDER BY \(key.orderOfColumns) LIMIT 1 OFFSET ?\(2 * key.count + 1)"
            }
            defer { end.reset() }
            try mover.bindRange(end, position, nil)
            try end.bind(rows - 1, at: 2 * key.count + 1)
            return try end.step() ? key.read(RowReader(end)) : nil
        }
        let range = key.range(after: lower, through: last)
        let found = try build.texts.statement(name, range, statements) { rowsToMerge(range, comingIn) }
        defer { found.reset() }
        try mover.bindRange(found, position, last)
        var rows: [RowKey] = []
        while try found.step() { rows.append(key.read(RowReader(found))) }
        var isWhole = true
        for row in rows {
            guard comingIn else {
                try leave(row)
                continue
            }
            do {
                try building.connection.savepoint("midstream_row") { try comeIn(row) }
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                isWhole = false
            }
        }
        return (last, isWhole)
    }

    /// Selects the keys of a range whose rows have to leave or to come in.
    func rowsToMerge(_ range: KeyRange, _ comingIn: Bool) -> String {
        let names = names(key.target, of: comingIn ? "midstream_live" : "midstream_built")
        let isInRange = comingIn ? " AND \(key.condition(names, range))" : ""
        let rows = comingIn ? missing : outdated(among: keys(range, comingIn))
        return "SELECT \(KeySQL.list(names)) FROM \(rows)\(isInRange)"
    }

    /// Selects the keys of a range that are looked at: those of the live rows, or those whose rows in the build may
    /// differ from the live rows.
    private func keys(_ range: KeyRange, _ comingIn: Bool) -> String {
        let tables = comingIn ? [live] : build.ledgers + [build.merged]
        let names = comingIn ? key.target : key.ledger
        return tables.map { "SELECT \(KeySQL.list(names)) FROM \($0) WHERE \(key.condition(names, range))" }
            .joined(separator: " UNION ")
    }

    private func holds(_ condition: String, _ row: RowKey) throws -> Bool {
        let statement = try statements.statement("SELECT EXISTS (SELECT 1 FROM \(condition))")
        defer { statement.reset() }
        try statement.bind(row, at: 1)
        return try statement.step() && statement.int64(at: 0) != 0
    }

    private func run(_ text: String, _ row: RowKey) throws {
        _ = try statements.run(text, by: { try $0.stepOfCopy() }) { try $0.bind(row, at: 1) }
    }

    private func leave(_ row: RowKey) throws {
        for index in build.parts {
            let values = KeySQL.list(index.values)
            let belongs = index.has(nulls: false)
            let entry = try statements.statement(
                "SELECT \(values) FROM \(build.rows) WHERE \(build.isSought)\(belongs.isEmpty ? "" : " AND " + belongs)"
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
            } else if !index.nullable.isEmpty {
                try run(index.deleteWaiting, row)
                let isGone = building.connection.changes == 1
                let hasEntry = "\(build.rows) WHERE \(build.isSought) AND \(index.has(nulls: true))"
                if try !isGone && holds(hasEntry, row) {
                    throw SQLiteError(code: .corrupt, message: "an entry is not where it was built")
                }
            }
        }
        try run("DELETE FROM \(built) WHERE \(build.isSought)", row)
    }

    private func comeIn(_ row: RowKey) throws {
        try run(build.copyLive, row)
        for index in build.parts {
            for (table, nulls) in [(index.relation, false), (index.waiting, true)]
            where !nulls || !index.nullable.isEmpty {
                let belongs = index.has(nulls: nulls)
                try run(
                    "INSERT INTO \(table) SELECT \(KeySQL.list(index.values)) FROM \(build.rows) "
                        + "WHERE \(build.isSought)\(belongs.isEmpty ? "" : " AND " + belongs)",
                    row
                )
            }
        }
        try run("INSERT OR IGNORE INTO \(build.merged) VALUES (\(KeySQL.list(key.parameters(from: 1))))", row)
    }
}
