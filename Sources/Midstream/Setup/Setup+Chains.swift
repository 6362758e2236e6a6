internal import SQLText
internal import SQLiteConnection

// Sources that are themselves targets.
extension Setup {
    // MARK: Finding them

    /// A move into a table that itself moves on, as the file of that table stores it.
    private struct Former {
        let record: TableRecord
        /// The source of the rows, as this file stores it; `nil` if this file cannot go on with the move.
        let origin: MigrationRecord?
        let isOfOtherFile: Bool
    }

    /// The moves into the source of a table that still have rows to come.
    private func formers(of record: TableRecord, _ migration: MigrationRecord) throws -> [Former] {
        try moves(intoSourceOf: record, migration).filter { former in
            former.record.phase == .copying || former.record.phase == .starting && former.isOfOtherFile
        }
    }

    private func moves(intoSourceOf record: TableRecord, _ migration: MigrationRecord) throws -> [Former] {
        let (migrations, records) = try StateStore(connection: connection, schema: migration.schema).load()
        return try records.filter { SQLIdentifier.equal($0.target, record.source) }.compactMap { first in
            guard let theirs = migrations.first(where: { $0.id == first.migration }) else { return nil }
            let isOfOtherFile = migration.sourcePath != nil
            let origin = isOfOtherFile ? try origin(theirs, in: migration) : theirs
            return Former(record: first, origin: origin, isOfOtherFile: isOfOtherFile)
        }
    }

    /// The migration of another file, with its path as seen from this file. The migration has the same id in both files.
    private func origin(_ theirs: MigrationRecord, in migration: MigrationRecord) throws -> MigrationRecord? {
        let main = connection.fileName(schema: "main") ?? ""
        guard let path = theirs.path(fromFolderOf: connection.fileName(schema: migration.schema) ?? ""),
            FilePath.identity(path) != FilePath.identity(main)
        else { return nil }
        let stored = FilePath.relative(path, toFolderOf: main)
        if let known = try stepper.load().migrations.first(where: { $0.hasSource(stored) }) { return known }
        return MigrationRecord(id: theirs.id, sourcePath: stored, deletesFile: theirs.deletesFile)
    }

    private func notWhole(_ record: TableRecord, _ migration: MigrationRecord, _ why: String) -> MigrationError {
        MigrationError(
            .unsupported,
            "table \(record.source) of \(stepper.path(of: migration) ?? "this file") still waits for rows \(why), and "
                + "table \(record.target) cannot get these rows directly: let the migration into \(record.source) end "
                + "first",
            table: record.target
        )
    }

    private func chain(
        _ former: Former,
        _ record: TableRecord,
        _ migration: MigrationRecord
    ) throws -> Chain? {
        guard let origin = former.origin else {
            throw notWhole(record, migration, "from a table of its own file, or of this file")
        }
        try stepper.attach(origin)
        let a = try SchemaReader(connection: connection, schema: origin.schema).table(former.record.source)
        let b = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        let c = try SchemaReader(connection: connection, schema: "main").table(record.target)
        guard let a, let b, let c else { return nil }
        return Chain(first: former.record, origin: origin, a: a, b: b, second: record, c: c)
    }

    /// A former move, rewritten as a move into the last table of its chain.
    private func joined(
        _ former: Former,
        _ record: TableRecord,
        _ migration: MigrationRecord
    ) throws -> (Chain, TableRecord) {
        let first = former.record
        if first.isReturning { throw notWhole(record, migration, "of a cancelled move") }
        if former.isOfOtherFile {
            if first.phase == .starting { throw notWhole(record, migration, "of a move that is just beginning") }
            // The source's table has taken over the rows that were to come into another table of this file. This is no error if
            // `record` has just taken over these rows itself, by another process.
            if try stepper.store.table(first.id) != nil,
                try stepper.store.table(record.id)?.phase ?? .starting == .starting
            {
                throw notWhole(record, migration, "of a move that this file has not ended yet")
            }
            let others = try Claims.all(in: migration.schema, connection).filter { claim in
                claim.id != record.id && claim.moved == nil && SQLIdentifier.equal(claim.sourceTable, record.source)
            }
            if let other = others.first { throw notWhole(record, migration, "claimed by \(other.destination)") }
            if try UnfencedClaims(connection: connection, schema: migration.schema).has(first.id) {
                throw notWhole(record, migration, "from a file that could not be written")
            }
            if first.refusedRowsTable != nil || first.unreadableRowsTable != nil {
                throw notWhole(record, migration, "of a move that has set rows aside")
            }
        }
        guard let chain = try chain(former, record, migration), let joined = chain.joined() else {
            throw notWhole(record, migration, "with columns that cannot be mapped to \(record.target)")
        }
        return (chain, joined)
    }

    // MARK: Before anything is done

    /// Makes sure that the rows that have yet to come into the source of a table can come into the table itself. If they cannot,
    /// and both tables are in one file, brings these rows into the source now.
    ///
    /// - Parameter isShared: Whether another table takes rows of the same source.
    /// - Throws: ``Ended`` when it has brought the rows into the source.
    func checkFormers(of record: TableRecord, _ migration: MigrationRecord, isShared: Bool) throws {
        for former in try formers(of: record, migration) {
            if former.isOfOtherFile {
                _ = try joined(former, record, migration)
            } else if try isShared || !canJoin(former, record, migration) {
                try end(former.record)
                throw Ended()
            }
        }
    }

    /// Makes sure that no row has yet to come into a source that cannot be written: a move that goes on with such rows writes the
    /// source.
    func checkNothingToCome(_ record: TableRecord, _ migration: MigrationRecord) throws {
        guard try !formers(of: record, migration).isEmpty else { return }
        throw MigrationError(
            .unsupported,
            "rows still have to move into table \(record.source) of \(stepper.path(of: migration) ?? "the source"), "
                + "and that file cannot be written: let the migration into \(record.source) end first",
            table: record.target
        )
    }

    private func canJoin(_ former: Former, _ record: TableRecord, _ migration: MigrationRecord) throws -> Bool {
        try chain(former, record, migration).map { $0.joined() != nil } ?? true
    }

    /// Takes out the tables that cannot begin together with the others, because the others bring rows into their sources, which
    /// must be there before. Applies only within one file.
    ///
    /// - Returns: The tables that were taken out.
    func takeOutFollowing(_ begun: inout [Beginning], _ migration: MigrationRecord) throws -> [Beginning] {
        guard migration.sourcePath == nil else { return [] }
        let following = try begun.filter { following in
            let record = following.record
            let sharing = begun.filter { SQLIdentifier.equal($0.record.source, record.source) }
            return try begun.contains { first in
                let former = Former(record: first.record, origin: migration, isOfOtherFile: false)
                return try SQLIdentifier.equal(first.record.target, record.source)
                    && (sharing.count > 1 || !canJoin(former, record, migration))
            }
        }
        // In a circle no table is the first; a later check reports that.
        guard following.count < begun.count else { return [] }
        begun.removeAll { beginning in following.contains { $0.record.id == beginning.record.id } }
        return following
    }

    private func end(_ first: TableRecord) throws {
        while try stepper.store.table(first.id)?.phase == .copying {
            try stepper.untilDone {
                try stepper.makeStep(.rows(.max - 1, table: first.target)) == .busy ? nil : ()
            }
        }
    }

    // MARK: Taking over

    /// Makes the sources of the moves into a table of another file belong to this file. That table has been claimed, so nobody
    /// goes on with these moves in its own file.
    func takeOver(_ record: TableRecord, _ migration: MigrationRecord) throws {
        for former in try formers(of: record, migration) {
            let (_, joined) = try joined(former, record, migration)
            try assign(joined, former, migration) { claims in
                try isStarting(record) && self.claims(on: record, migration).contains { $0.id == record.id }
                    ? claims.targetFile() : nil
            }
        }
    }

    /// Gives these sources back after the claim on that table has been withdrawn, so that the table's own file may go on with the
    /// moves.
    ///
    /// - Parameter isForgotten: Whether the target has only a note of the beginning.
    func giveBack(_ record: TableRecord, _ migration: MigrationRecord, isForgotten: Bool = false) throws {
        guard migration.sourcePath != nil else { return }
        for former in try moves(intoSourceOf: record, migration) where former.record.phase != .done {
            try assign(former.record, former, migration, isForgotten: isForgotten) { claims in
                let claim = try claims.all().first { $0.id == former.record.id }
                // Another of this file's tables may have the source.
                guard try isForgotten || isStarting(record), try self.claims(on: record, migration).isEmpty,
                    claim?.targetFile.hasSameBytes(as: claims.targetFile()) == true
                else { return nil }
                return claims.file(of: migration.schema)
            }
        }
    }

    /// Gives back what was taken over with all tables of a source on which this file has no claim. This is needed, for instance,
    /// if the process died after the claim was withdrawn.
    func giveBackAll(_ migration: MigrationRecord) throws {
        let moves = try StateStore(connection: connection, schema: migration.schema).load().tables
        for table in Set(moves.filter { $0.phase != .done }.map { SQLIdentifier.lowercased($0.target) }) {
            let claim = Claims.Claim(id: 0, sourceTable: table, targetFile: "", targetTable: "")
            try giveBack(TableRecord(claim, of: migration), migration, isForgotten: true)
        }
    }

    /// This file's claims on the source of a table. Another process may have had to withdraw a claim meanwhile.
    private func claims(on record: TableRecord, _ migration: MigrationRecord) throws -> [Claims.Claim] {
        let claims = Claims(connection: connection, migration: migration)
        return try claims.all().filter {
            SQLIdentifier.equal($0.sourceTable, record.source) && $0.targetFile.hasSameBytes(as: claims.targetFile())
        }
    }

    /// - Parameters:
    ///   - isForgotten: Whether the target stores nothing of the move, so that the target has nothing to lock.
    ///   - owner: Gives the file that is to have the source; `nil` to leave the source as it is.
    private func assign(
        _ record: TableRecord,
        _ former: Former,
        _ migration: MigrationRecord,
        isForgotten: Bool = false,
        _ owner: (Claims) throws -> String?
    ) throws {
        guard let origin = former.origin else { return }
        try stepper.attach(origin)
        let claims = Claims(connection: connection, migration: origin)
        func assign() throws {
            guard let owner = try owner(claims) else { return }
            try claims.assign(record, to: owner, among: [claims.targetFile(), claims.file(of: migration.schema)])
        }
        guard isForgotten else { return try stepper.writeSource(origin, of: record, assign) }
        try claims.write(assign)
    }

    /// Makes the moves into a table go on as moves into the table that it moves to, in the open transaction.
    ///
    /// - Returns: Whether there are such moves.
    func join(_ record: TableRecord, _ migration: MigrationRecord) throws -> Bool {
        let formers = try formers(of: record, migration)
        if formers.isEmpty { return false }
        // Possible other sources of the table: the moves besides `record` and those that go on as moves into the table.
        let own = Set(formers.map(\.record.id) + [record.id])
        let strangers = try stepper.load().tables.filter { !own.contains($0.id) }
        for former in formers {
            let (chain, joined) = try joined(former, record, migration)
            if former.isOfOtherFile { try chain.copyState(joined, from: migration.schema, to: stepper.store) }
            try chain.checkCollisions(joined, with: others(of: chain.c.name, strangers), connection)
            try chain.store(joined, in: stepper.store)
            stepper.forget(joined.id)
            stepper.refusalHandlers[joined.id] = stepper.refusalHandlers[record.id]
        }
        return true
    }
}
