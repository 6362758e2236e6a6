internal import SQLText
internal import SQLiteConnection

// Sources that cannot be written: they have neither claim nor fence.
extension Setup {
    /// Checks, before anything is stored, whether the source can be written. If it cannot, its tables move without being closed
    /// for writes, provided that they are to be kept.
    ///
    /// - Throws: ``MigrationError`` if the tables are not to be kept, or if the move would have to write the source.
    func settleAccess(_ begun: inout [Beginning], _ migration: MigrationRecord) throws {
        guard migration.sourcePath != nil, let cause = try reasonNotToWrite(migration) else { return }
        let path = stepper.path(of: migration) ?? "of the source"
        guard begun.allSatisfy({ $0.record.retirement == .keep }) else {
            throw MigrationError(
                .sourceUnavailable,
                "the file \(path) cannot be written, so its tables can be neither closed for writes nor dropped when "
                    + "they have moved. Make the file and its folder writable, or keep the source with retirement: "
                    + ".keep. Other programs can then still write the source; each step and each read checks whether "
                    + "one has. Nothing has been changed",
                cause: cause
            )
        }
        for beginning in begun { try checkNothingToCome(beginning.record, migration) }
        guard let stamp = SourceStamp(of: path) else {
            throw MigrationError(.sourceUnavailable, "the file \(path) cannot be accessed. Nothing has been changed")
        }
        for index in begun.indices { begun[index].stamp = stamp }
    }

    /// Tries to write the source, and takes the write back at once.
    ///
    /// - Returns: Why the source cannot be written; `nil` if it can be, or if somebody else has locked it, who then can write it.
    private func reasonNotToWrite(_ migration: MigrationRecord) throws -> SQLiteError? {
        if connection.isReadOnly(schema: migration.schema) ?? false {
            return SQLiteError(code: .readOnly, message: "the file can only be opened for reading")
        }
        let pragma = "PRAGMA \(migration.schema).user_version"
        do {
            _ = try stepper.withoutPatience {
                let version: Int64 = try connection.fetchValue(pragma) ?? 0
                // The write changes no schema, so what is known of the schemas stays valid.
                let knowledge = connection.schemaKnowledge
                try connection.execute("BEGIN")
                defer {
                    try? connection.rollBack()
                    connection.schemaKnowledge = knowledge
                }
                // This writes a page in memory, for which SQLite opens the journal.
                try connection.execute("\(pragma) = \(version)")
            }
            return nil
        } catch let error as SQLiteError where SourceFile.cannotWrite(error) {
            return error
        } catch {
            throw Stepper.namingFullDisk(of: stepper.path(of: migration), error)
        }
    }

    /// Whether the claim on a table's source is in the target alone, since the source could not be written.
    func isUnfenced(_ record: TableRecord) throws -> Bool { try UnfencedClaims(connection: connection).has(record.id) }

    /// The tables of a migration whose source has a claim, or is to get one.
    func fenced(_ records: [TableRecord], _ migration: MigrationRecord) throws -> [TableRecord] {
        if migration.sourcePath == nil { return [] }
        let unfenced = try UnfencedClaims(connection: connection).ids()
        return records.filter { !unfenced.contains($0.id) }
    }

    /// Whether the target's table has triggers that refuse writes: those of a beginning, or the guards.
    private func isClosed(_ record: TableRecord) throws -> Bool {
        let closing = "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND name = ?"
        let isClosed = try connection.fetchOne(closing, [BeginningGuard.name("insert", record.id)]) != nil
        return try isClosed || stepper.store.hasGuards(of: record.id)
    }

    /// Makes tables refuse new rows if the tables have yet to begin to move and cannot: a row could take the key of a row that is
    /// to come, and the table could then never begin. If the target cannot be written either, nobody can write such a row.
    func closeForWrites(_ records: [TableRecord], _ migration: MigrationRecord) {
        // No row comes from a file that is not there.
        if let path = stepper.path(of: migration), FilePath.isGone(path) { return }
        let open = records.filter { (try? isClosed($0)) == false }
        if open.isEmpty { return }
        _ = try? stepper.transaction(isDurable: true, patience: .seconds(1)) {
            for record in try open.filter(isStarting) {
                for trigger in BeginningGuard.create(record, from: stepper.path(of: migration)) {
                    try connection.execute(trigger)
                }
            }
        }
    }
}
