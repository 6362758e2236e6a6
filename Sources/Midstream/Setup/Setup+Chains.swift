internal import SQLText
internal import SQLiteConnection

// Sources that are targets themselves.
extension Setup {
    // MARK: Finding them

    /// A move into a table that moves on itself, as the file of that table has it.
    private struct Former {
        let record: TableRecord
        /// The rows' source, as this file has it; `nil` where it cannot go on with the move.
        let origin: MigrationRecord?
        let isOfOtherFile: Bool
    }

    /// The moves into the source of a table that have rows to come yet.
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

    /// The migration of another file with paths as seen from this one. It has the same number in both.
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
            "table \(record.source) of \(stepper.path(of: migration) ?? "this file") has yet to get rows \(why), which table "
                + "\(record.target) cannot get directly: let that migration end first",
            table: record.target
        )
    }

    private func chain(
        _ former: Former,
        _ record: TableRecord,
        _ migration: MigrationRecord
    ) throws -> Chain? {
        guard let origin = former.origin else {
            throw notWhole(record, migration, "from a table of the same file, or of this one")
        }
        try stepper.attach(origin)
        let a = try SchemaReader(connection: connection, schema: origin.schema).table(former.record.source)
        let b = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        let c = try SchemaReader(connection: connection, schema: "main").table(record.target)
        guard let a, let b, let c else { return nil }
        return Chain(first: former.record, origin: origin, a: a, b: b, second: record, c: c)
    }

    /// A move as one to the last table.
    private func joined(
        _ former: Former,
        _ record: TableRecord,
        _ migration: MigrationRecord
    ) throws -> (Chain, TableRecord) {
        let first = former.record
        if first.undoStage != nil { throw notWhole(record, migration, "of a move that has been cancelled") }
        if former.isOfOtherFile {
            if first.phase == .starting { throw notWhole(record, migration, "of a move that is just beginning") }
            // That table has taken over what was to come into another one of this file; unless this one has just taken it over, for
            // another process.
            if try stepper.store.table(first.id) != nil,
                try stepper.store.table(record.id)?.phase ?? .starting == .starting
            {
                throw notWhole(record, migration, "of a move that this file has not ended yet")
            }
            let others = try Claims.all(in: migration.schema, connection).filter { claim in
                claim.id != record.id && claim.moved == nil && SQLIdentifier.equal(claim.sourceTable, record.source)
            }
            if let other = others.first { throw notWhole(record, migration, "which may be \(other.destination)'s") }
            if try UnfencedClaims(connection: connection, schema: migration.schema).has(first.id) {
                throw notWhole(record, migration, "from a file that could not be written")
            }
            if first.refusedRowsTable != nil || first.unreadableRowsTable != nil {
                throw notWhole(record, migration, "of a move that has set rows aside")
            }
        }
        guard let chain = try chain(former, record, migration), let joined = chain.joined() else {
            throw notWhole(record, migration, "in another shape")
        }
        return (chain, joined)
    }

    // MARK: Before anything is done

    /// Makes sure that what has yet to come into the source of a table can come into the table itself. Within a file, it
    /// comes into the source now where that cannot be.
    ///
    /// - Parameter isShared: Whether another table takes rows of the same source.
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

    /// Makes sure that no row has yet to come into a source that cannot be written: who moves on with it writes it.
    func checkNothingToCome(_ record: TableRecord, _ migration: MigrationRecord) throws {
        guard try !formers(of: record, migration).isEmpty else { return }
        throw MigrationError(
            .unsupported,
            "table \(record.source) of \(stepper.path(of: migration) ?? "the source") has yet to get rows itself, and the file cannot be "
                + "written: let that migration end first",
            table: record.target
        )
    }

    private func canJoin(_ former: Former, _ record: TableRecord, _ migration: MigrationRecord) throws -> Bool {
        try chain(former, record, migration).map { $0.joined() != nil } ?? true
    }

    /// Takes out those that cannot begin together with the others, which bring rows into their sources that have to be there
    /// before. Within a file.
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
        // In a circle nobody is the first, which is told of later.
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

    /// Has the sources of moves into a table of another file belong to this one. That table has been claimed, so nobody
    /// goes on with them there.
    func takeOver(_ record: TableRecord, _ migration: MigrationRecord) throws {
        for former in try formers(of: record, migration) {
            let (_, joined) = try joined(former, record, migration)
            try assign(joined, former, migration) { claims in
                try isStarting(record) && self.claims(on: record, migration).contains { $0.id == record.id }
                    ? claims.targetFile() : nil
            }
        }
    }

    /// Gives them back, when the claim on that table has been withdrawn, and its own file may be going on with them.
    ///
    /// - Parameter isForgotten: Whether the target has but a note of the beginning.
    func giveBack(_ record: TableRecord, _ migration: MigrationRecord, isForgotten: Bool = false) throws {
        guard migration.sourcePath != nil else { return }
        for former in try moves(intoSourceOf: record, migration) where former.record.phase != .done {
            try assign(former.record, former, migration, isForgotten: isForgotten) { claims in
                let claim = try claims.all().first { $0.id == former.record.id }
                // Another of this file's tables may have it.
                guard try isForgotten || isStarting(record), try self.claims(on: record, migration).isEmpty,
                    claim?.targetFile.hasSameBytes(as: claims.targetFile()) == true
                else { return nil }
                return claims.file(of: migration.schema)
            }
        }
    }

    /// The same for all tables of a source on which this file has no claim, as where its process has died after that was withdrawn.
    func giveBackAll(_ migration: MigrationRecord) throws {
        let moves = try StateStore(connection: connection, schema: migration.schema).load().tables
        for table in Set(moves.filter { $0.phase != .done }.map { SQLIdentifier.lowercased($0.target) }) {
            let claim = Claims.Claim(id: 0, sourceTable: table, targetFile: "", targetTable: "")
            try giveBack(TableRecord(claim, of: migration), migration, isForgotten: true)
        }
    }

    /// This file's claims on the source of a table. Another process may have had to withdraw one meanwhile.
    private func claims(on record: TableRecord, _ migration: MigrationRecord) throws -> [Claims.Claim] {
        let claims = Claims(connection: connection, migration: migration)
        return try claims.all().filter {
            SQLIdentifier.equal($0.sourceTable, record.source) && $0.targetFile.hasSameBytes(as: claims.targetFile())
        }
    }

    /// - Parameters:
    ///   - isForgotten: Whether the target knows nothing of the move, so that there is nothing of its own to lock.
    ///   - owner: The file that is to have the source, unless it is to be left as it is.
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

    /// Has the moves into a table go on as moves into the one that it moves to, in the transaction that is open.
    ///
    /// - Returns: Whether there are such moves.
    func join(_ record: TableRecord, _ migration: MigrationRecord) throws -> Bool {
        let formers = try formers(of: record, migration)
        if formers.isEmpty { return false }
        // The sources of this table that have nothing to do with the one whose rows it takes now.
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
