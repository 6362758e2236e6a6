internal import SQLText
internal import SQLiteConnection

/// Evaluates on a source's rows, before a move begins, what the move will evaluate on them: what columns are made of, and the
/// target's CHECK constraints and indexes.
///
/// One pass over the rows finds out whether an expression fails on any row. Only if one does are the rows looked at one by one.
struct RowRehearsal {
    let connection: Connection
    let sql: MoveSQL
    /// Chooses the source's rows, as a continuation of a WHERE clause.
    let rows: String
    let terms: RehearsedTerms

    /// The rows that cannot move for one reason.
    struct Finding {
        /// What is wrong with the first row.
        let what: String
        let count: Int64
        /// The keys of the first few rows, in the order of keys.
        let keys: [RowKey]
        /// SQLite's error for the first row.
        let cause: SQLiteError?
    }

    /// How many keys a message shows.
    private static let mostKeys = 3
    /// How many rows that may not fit are tried.
    private static let mostTrials = 100

    // MARK: Rows on which an expression fails

    /// The rows on which an expression fails; `nil` if there are none.
    ///
    /// - Complexity: O(n) where an expression has a function that may fail, otherwise O(1).
    func failing() throws -> Finding? {
        let terms = compiling(terms.mayFail)
        guard try !terms.isEmpty && !passes(terms) else { return nil }
        var first: (what: String, cause: SQLiteError)?
        var (count, keys) = (Int64(0), [RowKey]())
        try forEachFailing(terms) { key in
            count += 1
            if keys.count < Self.mostKeys { keys.append(key) }
            if first == nil { first = try failure(of: terms, key) }
        }
        return first.map { Finding(what: $0.what, count: count, keys: keys, cause: $0.cause) }
    }

    /// Calls `body` with the key of each row on which an expression fails.
    func forEachFailing(_ body: (RowKey) throws -> Void) throws {
        let terms = compiling(terms.mayFail)
        if try terms.isEmpty || passes(terms) { return }
        // The keys are collected first, so that the query does not read what `body` writes.
        var failing: [RowKey] = []
        try forEachFailing(terms) { failing.append($0) }
        for key in failing { try body(key) }
    }

    private func passes(_ terms: [RehearsedTerms.Term]) throws -> Bool {
        let values = terms.map { "count(\($0.value))" }
        return try fails("SELECT \(KeySQL.list(values)) FROM \(relation(terms, sql.whereClause([], rows)))") == nil
    }

    private func forEachFailing(_ terms: [RehearsedTerms.Term], _ body: (RowKey) throws -> Void) throws {
        let keys = try connection.prepare(
            "SELECT \(KeySQL.list(sql.key.source)) FROM \(sql.source)\(sql.whereClause(sql.key.belonging, rows)) "
                + "ORDER BY \(sql.key.order(sql.key.source))"
        )
        let row = try connection.prepare(ofRow(terms))
        while try keys.step() {
            let key = try sql.key.read(keys)
            row.reset()
            try row.bind(key, at: 1)
            do {
                _ = try row.step()
            } catch {
                guard error.isOfRow else { throw error }
                try body(key)
            }
        }
    }

    private func failure(of terms: [RehearsedTerms.Term], _ key: RowKey) throws -> (String, SQLiteError)? {
        for term in terms {
            if let error = try fails(ofRow([term]), key) { return (term.what, error) }
        }
        return nil
    }

    private func ofRow(_ terms: [RehearsedTerms.Term]) -> String {
        let isKey = sql.key.equals(sql.key.source, sql.key.parameters(from: 1))
        let values = terms.map { "(\($0.value)) IS NULL" }
        return "SELECT \(KeySQL.list(values)) FROM \(relation(terms, " WHERE \(isKey)"))"
    }

    /// The error of a query, if it fails because of a row's values; `nil` if the query succeeds.
    private func fails(_ query: String, _ key: RowKey? = nil) throws -> SQLiteError? {
        let statement = try connection.prepare(query)
        do {
            if let key { try statement.bind(key, at: 1) }
            while try statement.step() {}
            return nil
        } catch {
            // Values on a damaged page cannot be known.
            if ResultCode.corrupt ~= error.code { return nil }
            guard error.isOfRow else { throw error }
            return error.withoutStatement
        }
    }

    // MARK: Rows that the target's constraints refuse

    /// The rows that the target's constraints refuse; `nil` if there are none.
    ///
    /// - Parameter refusal: Tries a row on the target and returns the target's error; `nil` if the target accepts the row.
    /// - Complexity: O(n) if there is a constraint that the source's rows need not meet, otherwise O(1).
    func unfit(_ refusal: (RowKey) throws -> SQLiteError?) throws -> Finding? { try unfit(terms.refusing, refusal) }

    /// The rows from which NULL would be made for a NOT NULL column of the target; `nil` if there are none.
    ///
    /// - Complexity: O(n) if there is such a column, otherwise O(1).
    func nulls() throws -> Finding? {
        let error = SQLiteError(code: .constraint, message: "NOT NULL constraint failed")
        do {
            return try unfit(terms.refusing.filter(\.isMade)) { _ in error }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            // Values on a damaged page cannot be known.
            return nil
        }
    }

    private func unfit(_ terms: [RehearsedTerms.Term], _ refusal: (RowKey) throws -> SQLiteError?) throws -> Finding? {
        let terms = compiling(terms)
        if terms.isEmpty { return nil }
        let isUnfit = terms.map { "(\($0.value))" }.joined(separator: " OR ")
        let relation = relation(terms, sql.whereClause(sql.key.belonging, rows))
        let aliases = sql.key.source.indices.map { "midstream_key\($0)" }
        var (keys, first) = ([RowKey](), Finding?.none)
        let statement = try connection.prepare(
            "SELECT \(KeySQL.list(aliases)), "
                + "CASE \(terms.indices.map { "WHEN \(terms[$0].value) THEN \($0)" }.joined(separator: " ")) END "
                + "FROM \(relation) WHERE \(isUnfit) ORDER BY \(sql.key.order(aliases)) LIMIT \(Self.mostTrials)"
        )
        var candidates: [(key: RowKey, term: Int)] = []
        while try statement.step() {
            candidates.append((try sql.key.read(statement), Int(statement.int64(at: sql.key.count))))
        }
        statement.reset()
        for candidate in candidates where keys.count < Self.mostKeys {
            // Once stored in a column, a value may compare differently.
            guard let cause = try refusal(candidate.key) else { continue }
            if first == nil {
                first = Finding(what: terms[candidate.term].what, count: 0, keys: [], cause: cause.withoutStatement)
            }
            keys.append(candidate.key)
        }
        guard let first else { return nil }
        let count = try connection.fetchValue(Int64.self, "SELECT count(*) FROM \(relation) WHERE \(isUnfit)")
        return Finding(what: first.what, count: count ?? 1, keys: keys, cause: first.cause)
    }

    // MARK: SQL

    /// The terms that compile on a row by itself. Others, such as one that names the rowid, are left to the move.
    private func compiling(_ terms: [RehearsedTerms.Term]) -> [RehearsedTerms.Term] {
        terms.filter { (try? connection.prepare(ofRow([$0]))) != nil }
    }

    /// The source's rows under the target's names, as far as the terms need them.
    private func relation(_ terms: [RehearsedTerms.Term], _ clause: String) -> String {
        if terms.allSatisfy(\.isOfSource) { return sql.source + clause }
        let keys = sql.key.source.enumerated().map { "\($1) AS midstream_key\($0)" }
        let values = Set(terms.compactMap(\.column)).sorted().map {
            "\(sql.columns[$0].value) AS \(RehearsedTerms.alias($0))"
        }
        let operands = Set(terms.flatMap(\.operands)).sorted().map {
            "\(sql.columns[$0].operand) AS \(SQLIdentifier.quoted(self.terms.target.columns[$0].name))"
        }
        return "(SELECT \(KeySQL.list(keys + values + operands)) FROM \(sql.source)\(clause)) AS "
            + SQLIdentifier.quoted(sql.targetName)
    }
}

extension SQLiteError {
    /// Whether an expression has failed because of a row's values.
    var isOfRow: Bool { code == .error || code == .tooBig }

    /// The error without its SQL, which is the engine's own statement.
    fileprivate var withoutStatement: SQLiteError { SQLiteError(code: code, message: message) }
}

extension RowRehearsal.Finding {
    /// The number of rows and the keys of the first ones: "3 rows of table t (rowids 2, 5, 9)".
    func rows(of table: String) -> String {
        let isRowID = keys.first?.rowID != nil
        let list = keys.map(Self.words).joined(separator: ", ") + (count > Int64(keys.count) ? ", …" : "")
        let name = (isRowID ? "rowid" : "key") + (count == 1 ? "" : "s")
        return "\(count) \(count == 1 ? "row" : "rows") of \(table) (\(name) \(list))"
    }

    private static func words(_ key: RowKey) -> String {
        let values = key.values.map { SQLLiteral.text(of: $0.value, atMost: 100) }
        return values.count == 1 ? values[0] : "(\(values.joined(separator: ", ")))"
    }
}
