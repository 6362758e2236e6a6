internal import SQLText
internal import SQLiteConnection

/// Drains the tables of which a statement needs all rows in one place.
extension DatabaseAccess {
    func drain(_ ids: Set<Int64>, _ reason: MigrationStatistics.Reason, for sql: String) throws {
        let tables = overlay.groups(of: ids)
        let names = tables.map(\.name)
        try checkNothingReads(tables, reason)
        guard kind != .borrowed else { throw refusal(reason, names, Hindrance.borrowed) }
        guard !tables.contains(where: { $0.feeds.contains(where: \.isReturning) }) else {
            throw refusal(reason, names, Hindrance.returning)
        }
        if let destination = tables.flatMap(\.feeds).compactMap(\.destination).first {
            throw refusal(reason, names, Hindrance.movingOn(to: destination))
        }
        guard kind == .writer else { throw refusal(reason, names, Hindrance.reader) }
        if connection.isInTransaction {
            try beginInEarnest(writing: true)
            do {
                try overlay.unnoticed { try protected { try drainWhole(ids) } }
            } catch {
                if connection.isInTransaction { try? restoreOverlay() }
                overlay.forgetSchemaVersion()
                throw told(error, reason, names, for: sql)
            }
        } else {
            guard !connection.isAmidWrite else {
                throw refusal(reason, names, Hindrance.statement("writes"))
            }
            try beginWriting()
            do {
                guard try overlay.isOfSchema() else {
                    // Another process has changed what moves. The caller determines again what has to be drained.
                    try rollBack()
                    return try overlay.refresh()
                }
                try overlay.unnoticed { try drainHere(ids) }
                try connection.execute("COMMIT")
            } catch {
                try? rollBack()
                overlay.forgetSchemaVersion()
                throw told(error, reason, names, for: sql)
            }
            try overlay.refresh()
        }
        counters.noteDrain(of: names, reason)
        onDrain?(names, sql)
    }

    /// Makes the overlay anew, and drains the tables for which it cannot be made. For use outside transactions.
    func refreshOverlay() throws {
        try overlay.refresh()
        while true {
            let (tables, reason) = overlay.needsDraining
            if tables.isEmpty { return }
            try drain(tables, reason, for: "CREATE TEMP")
        }
    }

    func checkNothingReads(_ tables: [MovingTable], _ reason: MigrationStatistics.Reason) throws {
        guard let table = tables.flatMap(\.feeds).first(where: { $0.openCursors > 0 }) else { return }
        throw refusal(reason, [table.name], Hindrance.statement("reads them"))
    }

    /// Why rows cannot be moved into one place, and what to do: each is the end of the message.
    private enum Hindrance {
        static let borrowed =
            ". This connection cannot move them there: run the statement through a Database that opens the same file"
        static let returning =
            ", which is not possible while the tables return to their source: run the statement after that"
        static let reader =
            ". A reader cannot move them there: run the statement in a write block, or after the table has moved"

        static func movingOn(to destination: String) -> String {
            ", which is not possible while the tables move on to \(destination): run the statement after that"
        }

        static func statement(_ verb: String) -> String {
            ", which is not possible while another statement \(verb): run the statement after that one has ended"
        }
    }

    private func refusal(_ reason: MigrationStatistics.Reason, _ tables: [String], _ why: String) -> MigrationError {
        if !isRepeated { counters.noteRefusal(reason) }
        return MigrationError(
            .refusedStatement,
            "for \(reason.construct), the statement needs the rows of \(tables.joined(separator: ", ")) in one "
                + "place\(why)",
            table: tables.first,
            reason: reason
        )
    }

    /// The error to throw if draining fails because a table refuses a row: it says why the row had to come now, and
    /// names the application's statement instead of the one that moved the row.
    private func told(
        _ error: any Error,
        _ reason: MigrationStatistics.Reason,
        _ tables: [String],
        for sql: String
    ) -> any Error {
        guard let error = error as? SQLiteError, ResultCode.constraint ~= error.code else { return error }
        let why =
            "for \(reason.construct), the statement needs the rows of \(tables.joined(separator: ", ")) in one place, "
            + "and a row that has yet to move does not fit there: the error of the next step names that row"
        return SQLiteError(code: error.code, message: "\(error.message). \(why)", sql: sql)
    }

    private func drainWhole(_ ids: Set<Int64>) throws {
        let before = connection.totalChanges
        do {
            try drainHere(ids)
        } catch {
            if connection.totalChanges != before { overlay.statements.noteHalfDone() }
            throw error
        }
    }

    /// Moves the remaining rows of the tables.
    private func drainHere(_ ids: Set<Int64>) throws {
        let before = connection.totalChanges
        defer { overlay.statements.internalChanges += connection.totalChanges - before }
        // Moving a row breaks no foreign key that the row did not break before. Unlike the pragma, this setting works
        // within a transaction, and keeps the violations that the transaction itself has caused.
        let enforces = try enforcesForeignKeys()
        if enforces { try connection.configure(.foreignKeys, false) }
        defer { if enforces { try? connection.configure(.foreignKeys, true) } }
        let store = StateStore(connection: connection)
        for table in overlay.groups(of: ids) {
            for feed in table.feeds {
                guard let record = try store.table(feed.id), record.phase == .copying else { continue }
                try feed.knownSource.confirmWhole()
                let mover = RowMover(statements: overlay.statements, sql: feed.sql)
                try withoutTriggers(of: table, unlessFired: feed) { _ = try mover.moveRest(record) }
                guard let moved = try store.table(feed.id) else { continue }
                let (rows, hashes) = try mover.countSource(moved)
                try mover.complete(moved, counted: rows, hashed: hashes)
            }
            for feed in table.feeds { overlay.statements.blobs.promotedAll(of: feed.id) }
            try overlay.removeDrained(table)
        }
    }

    /// Moves rows with triggers switched off, unless the triggers are to fire. Switching triggers off expires
    /// statements, so it is not done while a statement runs. Then the watch leaves the triggers' programs empty, as far
    /// as it can.
    private func withoutTriggers(of table: MovingTable, unlessFired feed: MovingTable, _ move: () throws -> Void) throws
    {
        if feed.sql.firesTriggers { return try move() }
        if connection.hasBusyStatement {
            guard !overlay.watch.triggers.unsilenced.contains(table.id) else {
                throw refusal(.program, [table.name], Hindrance.statement("runs"))
            }
            return try move()
        }
        try connection.configure(.triggers, false)
        defer { try? connection.configure(.triggers, true) }
        try move()
    }
}
