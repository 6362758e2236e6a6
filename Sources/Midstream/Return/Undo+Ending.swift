internal import SQLText
internal import SQLiteConnection

// How Midstream lets go of a table that has returned.
extension Undo {
    /// Ends the return, when all rows are back: the target's table is an ordinary one again.
    func end(_ record: TableRecord, _ sql: UndoSQL) throws {
        try end(record)
        try connection.execute("DROP TABLE \(sql.returning)")
        try connection.execute(sql.dropReturned)
    }

    func end(_ record: TableRecord) throws {
        try TableUpdate.move(record, to: .returned, connection)
        for text in MoveSQL.dropTriggers(record.id) { try connection.execute(text) }
    }

    /// Opens the source of a table whose return has ended to writers, and makes the target forget the table.
    func release(_ record: TableRecord) throws -> MigrationProgress.Outcome {
        let isGone = try isGoneSinceOpening(record)
        if migration.sourcePath != nil, !isGone {
            guard try stepper.isProvenUnread(record.id, since: .end) else { return .waitingForReaders }
            // From now on, only the source has the rows. A checkpoint of another connection may have synced nothing.
            try connection.sync(schema: "main")
            try stepper.attach(migration)
            try stepper.checkInPlace(migration)
            guard try noteOpening(record),
                try stepper.writeSourceAtOnce(migration, of: record, { try open(record) }) != nil
            else { return .busy }
        }
        var isMine = false
        let done: Void? = try stepper.transaction(isDurable: true) {
            isMine = try stepper.store.table(record.id) != nil
            guard isMine else { return }
            if migration.sourcePath == nil { try open(record) }
            if isGone {
                let returns = Returns(connection: connection)
                try Unreleased(connection: connection).note(
                    .init(
                        id: record.id,
                        moved: Unreleased.nothing,
                        source: migration.sourcePath,
                        file: returns.file(of: record),
                        writes: returns.writes(of: record)
                    )
                )
            }
            try stepper.store.remove(record)
        }
        guard done != nil else { return .busy }
        stepper.forget(record.id)
        if isMine { stepper.onEvent?(.tableReturned(record.target)) }
        try Retirement(stepper: stepper, migration: migration).leaveSource()
        return .worked
    }

    /// Whether the source's file is not there any more, after the source may have been opened: the file may have been
    /// used since, and deleted or replaced.
    private func isGoneSinceOpening(_ record: TableRecord) throws -> Bool {
        guard record.life == .opening, let path = stepper.path(of: migration) else { return false }
        if FilePath.isGone(path) { return true }
        guard let file = try Returns(connection: connection).file(of: record), file != FilePath.lastingIdentity(path)
        else {
            return false
        }
        // The file that is there may be a copy, which has the claim.
        try stepper.attach(migration)
        return try Claims(connection: connection, migration: migration).all(only: record.id).isEmpty
    }

    /// Notes that the source is about to be opened. Until this is noted, a source without the claim is another file, or
    /// is from before.
    ///
    /// - Returns: `false` if somebody keeps the target locked.
    private func noteOpening(_ record: TableRecord) throws -> Bool {
        let claims = Claims(connection: connection, migration: migration)
        let claim = try claims.all(only: record.id).first
        // Another process may have opened the source since the record was read, or may have ended the move.
        guard let now = try stepper.store.table(record.id), now.life != .opening else { return true }
        guard let claim else { throw claims.isOther(record) }
        try claims.checkOwner(claim)
        try claims.checkStage(claim, now)
        let file = stepper.sourceFile(of: migration)
        let noted: Void? = try stepper.transaction(isDurable: true) {
            guard try stepper.store.table(record.id) != nil else { return }
            try Returns(connection: connection).note(file: file, of: record)
            try TableUpdate.move(record, to: .opening, connection)
        }
        return noted != nil
    }

    /// Takes the fence from the source.
    private func open(_ record: TableRecord) throws {
        let claims = Claims(connection: connection, migration: migration)
        if !claims.isSameFile, let claim = try claims.all().first(where: { $0.id == record.id }) {
            try claims.checkOwner(claim)
            // The file may be from before the table's rows returned.
            try claims.checkStage(claim, stepper.store.table(record.id))
        }
        try claims.withdraw(record)
        try Self.raiseSequence(record, migration, connection)
    }

    /// Makes sure that the source's AUTOINCREMENT never again chooses a rowid that the returned table has had.
    static func raiseSequence(_ record: TableRecord, _ migration: MigrationRecord, _ connection: Connection) throws {
        let reader = SchemaReader(connection: connection, schema: migration.schema)
        guard let source = try reader.table(record.source), source.isAutoIncrement,
            let sequence = try AutoIncrement.sequence(of: record.target, in: "main", connection)
        else { return }
        try AutoIncrement.raise(of: source.name, in: migration.schema, to: sequence, connection)
    }
}
