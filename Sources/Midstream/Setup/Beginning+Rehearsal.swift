internal import SQLText
internal import SQLiteConnection

// Finds rows that could not move, before the move begins.
extension Beginning {
    /// How messages name the table of the rows.
    private var place: String {
        record.isRebuild ? "table \(record.target)" : "source table \(record.source)"
    }

    private func rehearsal(_ terms: RehearsedTerms, rows: String) -> RowRehearsal {
        RowRehearsal(connection: connection, sql: sql, rows: rows, terms: terms)
    }

    private func rehearsal(rows: String?) throws -> RowRehearsal {
        let terms = try RehearsedTerms(sql, target: target, source: source, former: former, on: connection)
        return rehearsal(terms, rows: rows ?? sql.condition)
    }

    /// Makes sure that the condition fails on no row. Otherwise the table could not be read.
    func checkCondition() throws {
        guard let condition = record.condition else { return }
        let terms = RehearsedTerms(condition: condition, sql, target: target, source: source)
        guard let found = try rehearsal(terms, rows: "").failing() else { return }
        throw MigrationError(
            .unsupported,
            "the condition for table \(record.target) fails on \(found.rows(of: place)): "
                + "\(found.cause?.message ?? ""). Change or delete \(found.count == 1 ? "this row" : "these rows") "
                + "first, or have the condition check the function's argument first, as in CASE WHEN json_valid(a) "
                + "THEN … END",
            table: record.target,
            row: found.keys.first,
            cause: found.cause
        )
    }

    /// Makes sure that no expression fails on a row, unless the policy already says what becomes of such rows.
    ///
    /// - Parameter rows: Which rows of the source, as SQL that follows a term of WHERE; `nil` for all that belong.
    func checkExpressions(of rows: String? = nil) throws {
        guard record.refusedRows.alwaysStops, let found = try rehearsal(rows: rows).failing() else { return }
        throw failure(found)
    }

    private func failure(_ found: RowRehearsal.Finding) -> MigrationError {
        MigrationError(
            .rowRefused,
            "\(found.what) of table \(record.target) fails on \(found.rows(of: place)): \(found.cause?.message ?? ""). "
                + "Nothing has been changed. Change or delete \(found.count == 1 ? "this row" : "these rows") first, "
                + "or use an expression that checks the function's argument first, as in CASE WHEN json_valid(a) THEN "
                + "… END, or have such rows set aside: refusedRows = .setAside",
            table: record.target,
            row: found.keys.first,
            cause: found.cause
        )
    }

    /// Makes sure that the table's new shape takes all rows, unless the policy already says what becomes of the others.
    ///
    /// - Parameters:
    ///   - rows: Which rows of the source, as SQL that follows a term of WHERE; `nil` for all that belong.
    ///   - statements: The engine's own statements on the connection.
    func checkConstraints(of rows: String? = nil, _ statements: InternalStatements) throws {
        guard record.refusedRows.alwaysStops else { return }
        let mover = RowMover(statements: statements, sql: sql)
        let found = try rehearsal(rows: rows).unfit { key in
            do {
                try connection.savepoint("midstream_trial") {
                    _ = try mover.copy(sql.copyRow) { try $0.bind(key, at: 1) }
                    throw Taken()
                }
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                return error
            } catch is Taken {}
            return nil
        }
        guard let found else { return }
        throw refusal(
            found,
            "the table's new shape",
            remedy: "or map the column to an expression that fits, as in coalesce(a, '')",
            found.cause
        )
    }

    /// Makes sure that no value of the source is NULL where the target's column is NOT NULL, unless the policy already
    /// says what becomes of such rows. Such rows could not be changed so that they fit, and could not go back once others
    /// have moved.
    func checkNulls() throws {
        guard record.refusedRows.alwaysStops, let found = try rehearsal(rows: nil).nulls() else { return }
        throw refusal(
            found,
            "table \(record.target)",
            remedy: "map the column by TableMigration.columns to an expression that fits, as in coalesce(a, '')"
        )
    }

    private func refusal(
        _ found: RowRehearsal.Finding,
        _ what: String,
        remedy: String,
        _ cause: SQLiteError? = nil
    ) -> MigrationError {
        let isOne = found.count == 1
        return MigrationError(
            .rowRefused,
            "\(found.rows(of: place)) \(isOne ? "does" : "do") not fit \(what): \(found.what). Nothing has been changed. Change or "
                + "delete \(isOne ? "this row" : "these rows") first, \(remedy)"
                + ", or have such rows set aside: refusedRows = .setAside",
            table: record.target,
            row: found.keys.first,
            cause: cause
        )
    }

    /// Undoes the insertion of a row that the target takes.
    private struct Taken: Error {}

    /// Does at once what the migration's policy says with the rows on which an expression fails, in the transaction
    /// that lets the table move. So nobody ever reads them as rows that are to come.
    ///
    /// - Parameters:
    ///   - rows: Which rows of the source, as SQL that follows a term of WHERE; `nil` for all that belong.
    ///   - handler: Asks the application; `nil` if the application cannot be asked.
    /// - Returns: What has become of the rows.
    func settleFailing(
        of rows: String? = nil,
        _ statements: InternalStatements,
        handler: RefusedRowPolicy.Handler? = nil
    ) throws -> RefusedRows.Outcome {
        var outcome = RefusedRows.Outcome()
        guard !record.refusedRows.alwaysStops else { return outcome }
        let rehearsal = try rehearsal(rows: rows)
        let mover = RowMover(statements: statements, sql: sql)
        let refused = RefusedRows(
            mover: mover,
            record: record,
            handler: handler,
            connection: connection,
            isInOrder: false
        )
        try rehearsal.forEachFailing { key in
            outcome.note(try refused.move(key, by: .key), of: key)
            if let refusal = outcome.refusal { throw try rehearsal.failing().map(failure) ?? refusal.error }
            _ = try mover.run(sql.settle) { try $0.bind(key, at: 1) }
        }
        return outcome
    }
}
