internal import SQLText
internal import SQLiteConnection

/// A text that takes the place of the first statement of another text.
package struct Rewriting {
    package let sql: String
    /// Where the next statement of the given text begins, in bytes.
    package let end: Int

    struct Key: Hashable {
        var text: ExactString
        var enforcesForeignKeys: Bool
    }
}

// Statements that write the target's table on a connection of other code, and promote the rows that they need by themselves.
extension BorrowedWrites {
    /// The statement that does what the given one cannot do with a union table; `nil` if the given one can be left as it is.
    func rewriting(of sql: String) throws -> Rewriting? {
        guard !isAnnounced, let overlay else { return nil }
        let enforces = connection.isOn(.foreignKeys)
        return try texts.rewritings.plan(
            for: Rewriting.Key(text: ExactString(string: sql), enforcesForeignKeys: enforces)
        ) {
            let outline = SQLScript(sql).outline()
            guard let table = try tableOfRefused(outline, overlay) else { return nil }
            try noteStatement()
            var router = Router(overlay: overlay, enforcesForeignKeys: enforces)
            router.isAlone = true
            let route = try router.route(outline, in: sql)
            let isBesideRowID =
                outline.from != nil && Promotion(outline: outline, text: sql, table: table).namesRowID
            let reason = isBesideRowID ? "a rowid beside FROM" : route.reason.construct
            guard !isBesideRowID, route.drained.isEmpty, route.substitutes.isEmpty, !route.ignoresChecks,
                !route.suspendsOverlay,
                route.redirected != nil
            else {
                throw MigrationError(
                    .refusedStatement,
                    "table \(table.name) is moving, and \(reason) needs its rows in one place before the "
                        + "statement runs: run the statement with MigrationOverlay.execute or fetchAll",
                    table: table.name
                )
            }
            return Rewriting(sql: route.sql, end: outline.endOffset)
        }
    }

    /// The moving table that a statement writes in a way that SQLite, or ``WritePlan``, refuses for a union table.
    private func tableOfRefused(_ outline: StatementOutline, _ overlay: Overlay) throws -> MovingTable? {
        switch outline.kind {
        case .insert: guard !outline.upsert.isEmpty || outline.returning != nil else { return nil }
        case .update: guard outline.returning != nil || outline.from != nil else { return nil }
        case .delete: guard outline.returning != nil else { return nil }
        default: return nil
        }
        guard let target = outline.target, target.schema == nil else { return nil }
        return overlay.table(named: target.name)
    }

    /// Notes that a statement writes the target's table itself.
    func noteDirectWrite(of table: MovingTable) throws {
        if isCarryingOut || isAnnounced { return statements.epoch += 1 }
        try noteStatement()
        guard connection.isOn(.foreignKeys), overlay?.lacksKeyActions(table) ?? true else { return }
        throw Self.refusal(of: table, "a foreign key connects it with another table")
    }

    /// Refuses a statement that reads a table that has moved, by the union table, and inserts into the target's table itself. Natively, SQLite
    /// reads all rows before it inserts the first one; here SQLite does so only while the target's table has triggers.
    func checkReadOfMoved(_ table: MovingTable) throws {
        for running in connection.runningStatements(thatMayWrite: true) {
            guard let text = running.sql else { continue }
            let outline = SQLScript(text).outline()
            guard outline.kind == .insert, let target = outline.target, SQLIdentifier.equal(target.name, table.name),
                target.schema.map({ SQLIdentifier.equal($0, "main") }) ?? false
            else { continue }
            throw SQLiteError(
                code: .error,
                message:
                    "table \(table.name) has moved, and the statement reads and writes it: call MigrationOverlay.refresh, and prepare the "
                    + "statement anew"
            )
        }
    }

    /// Makes sure that SQLite finds rows by a list of their keys, as ``Promotion/embed(in:redirect:)`` needs it. If SQLite knows that the
    /// table has few rows, it may look at each of them instead, and evaluates the list at the first one. It would then miss rows that come
    /// before the first one. SQLite knows nothing of tables that ANALYZE has not seen, and takes them for large.
    func checkStatistics(of table: MovingTable) throws {
        if isAnnounced { return }
        let exists = try statements.statement("SELECT 1 FROM main.sqlite_master WHERE name = 'sqlite_stat1'")
        defer { exists.reset() }
        guard try exists.step() else { return }
        let known = try statements.statement(
            "SELECT min(CAST(stat AS INTEGER)) FROM main.sqlite_stat1 WHERE tbl = ?1 COLLATE NOCASE"
        )
        defer { known.reset() }
        try known.bind(table.name, at: 1)
        guard try known.step(), known.storageClass(at: 0) != .null, known.int64(at: 0) < Self.fewRows else { return }
        throw Self.refusal(
            of: table,
            "ANALYZE has counted few rows in the target, so SQLite would not look for them by a list of keys"
        )
    }

    private static let fewRows = 10_000
}
