internal import SQLiteConnection

// A promotion brings a pending row into the target because a statement needs it there. It never changes what the
// application sees, so it may be done at any time, to any row.
extension MovingTable {
    /// Promotes the row with this key if it is pending.
    func promoteIfPending(_ key: RowKey, _ state: LiveState) throws {
        if try isPending(key, state) { try promote(key) }
    }

    func isPending(_ key: RowKey) throws -> Bool { try isPending(key, state()) }

    private func isPending(_ key: RowKey, _ state: LiveState) throws -> Bool {
        guard let lower = state.lowerBound else { return false }
        if let rowID = key.rowID {
            guard rowID >= lower, let last = try largestSourceKey(), rowID <= last else { return false }
        }
        let lookup = try statement(state.bound != nil ? isPendingRow.bounded : isPendingRow.unbounded)
        defer { lookup.reset() }
        try lookup.bind(key, at: 1)
        if key.rowID == nil { try state.bindBound(lookup, at: 1 + self.key.count) }
        return try lookup.step()
    }

    /// Refuses to write a table whose rows move on to another file, as the fence refuses it for rows that have come.
    private func checkOwn() throws {
        guard let destination else { return }
        throw SQLiteError(
            code: .constraintTrigger,
            message: "table \(name) is moving to \(destination): write it there"
        )
    }

    /// Promotes a pending row, after the rows that enforced foreign keys need before it.
    func promote(_ key: RowKey) throws {
        guard let keyActions else { return try promoteAlone(key) }
        try keyActions.promote(key, of: self)
    }

    /// Promotes a pending row, and no other.
    func promoteAlone(_ key: RowKey) throws {
        try checkOwn()
        try knownSource.confirm()
        let before = connection.totalChanges
        statements.isPromoting = true
        defer {
            statements.isPromoting = false
            statements.internalChanges += connection.totalChanges - before
        }
        func run(_ text: String) throws {
            let statement = try statement(text)
            defer { statement.reset() }
            try statement.bind(key, at: 1)
            _ = try statement.stepOfCopy()
        }
        var isCopied = false
        // Both statements are prepared before anything is changed.
        _ = try statement(settleRow)
        do {
            try statements.movingRows(of: sql) {
                try run(copyRow)
                guard connection.changes > 0 else { throw Self.isKeptOut(name) }
                isCopied = true
            }
            try run(settleRow)
        } catch {
            if isCopied { statements.noteHalfDone() } else { statements.refusal = .meant }
            throw error
        }
        statements.epoch += 1
        recent.note(self.key.folded(key))
        statements.blobs.promoted(key, of: id)
    }

    /// A TEMP trigger of other code may say RAISE(IGNORE).
    private static func isKeptOut(_ table: String) -> SQLiteError {
        SQLiteError(
            code: .error,
            message: "a trigger of this connection keeps a pending row of table \(table) from being promoted"
        )
    }

    /// Notes that a pending row is gone. SQLite counts it as a row that the statement has changed.
    func discard(_ key: RowKey) throws {
        try checkOwn()
        try knownSource.confirm()
        let statement = try statement(settleRow)
        defer { statement.reset() }
        try statement.bind(key, at: 1)
        _ = try statement.step()
        statements.epoch += 1
        recent.note(self.key.folded(key))
        statements.blobs.discarded(key, of: id)
    }

    /// The number of pending rows.
    func countPending() throws -> Int64 {
        let state = try state()
        guard state.lowerBound != nil else { return 0 }
        let count = try statement(sql.countPending(isBounded: state.bound != nil, hasLedger: state.hasLedger))
        defer { count.reset() }
        try state.bindBound(count, at: 1)
        return try count.step() ? count.int64(at: 0) : 0
    }

    /// Notes that all pending rows are gone: the stepper counts as having passed them. They count as changed by the statement.
    ///
    /// - Parameter rows: The number of pending rows.
    func discardAll(_ rows: Int64) throws {
        try checkOwn()
        try knownSource.confirm()
        let before = connection.totalChanges
        try RowMover(statements: statements, sql: sql).advance(to: nil, copied: 0, hasLedger: true, others: rows)
        statements.internalChanges += connection.totalChanges - before - rows
        statements.epoch += 1
        statements.blobs.discardedAll(of: id)
    }

    /// Promotes every pending row with which a new row could collide. Also promotes what SQLite must see to choose a rowid as it
    /// would in the whole table.
    ///
    /// - Parameter values: The new row's rowid, or NULL if it has none, then the values of each comparable key's columns.
    func resolveConflicts(_ values: ValueReferences, from first: Int) throws {
        let state = try state()
        guard state.lowerBound != nil else { return }
        guard values.count == first + 1 + keyCount else {
            throw SQLiteError(
                code: .error,
                message: "a program without Midstream has changed the unique keys of table \(name) while it moves"
            )
        }
        statements.guardedRows += 1
        if untoldKeyColumns.contains(where: { values[first + 1 + $0].storageClass == .null }) {
            return try promoteAll(state)
        }
        let rowID = values[first]
        if rowID.storageClass == .integer, key.isRowID {
            try colliding(by: .rowID) { try promoteIfPending(.rowID(rowID.int64), state) }
            // SQLite shows a rowid that it has yet to choose as -1.
            if rowID.int64 == -1 { try promoteLargest(state) }
        }
        let lookups = state.bound != nil ? keyLookups.bounded : keyLookups.unbounded
        var position = first + 1
        for (ordinal, index) in comparableKeys.enumerated() {
            let range = position..<(position + index.terms.count)
            position = range.upperBound
            // NULLs never equal each other.
            if range.contains(where: { values[$0].storageClass == .null }) { continue }
            let lookup = try statement(lookups[ordinal])
            defer { lookup.reset() }
            for (offset, argument) in range.enumerated() { try lookup.bind(values[argument], at: offset + 1) }
            try state.bindBound(lookup, at: range.count + 1)
            while try lookup.step() {
                let found = try key.read(lookup)
                lookup.reset()
                try colliding(by: .index(index.name)) { try promote(found) }
            }
        }
    }

    /// If the target refuses the pending row, notes the key by which a new row collides with it.
    private func colliding(by key: RollbackClauses.Key, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            if statements.refusal != nil { statements.refusal = .collision(key, row: statements.guardedRows) }
            throw error
        }
    }

    /// Promotes all pending rows one by one, so that open cursors and blobs learn of each.
    ///
    /// - Complexity: O(n log n)
    private func promoteAll(_ state: LiveState) throws {
        let mover = RowMover(statements: statements, sql: sql)
        var position = state.position
        while let next = try mover.key(at: 0, from: position, isPending: true) {
            try promote(next)
            position = .after(next)
        }
    }

    /// Makes sure that the target's largest rowid is the whole table's.
    ///
    /// The ceiling is stored, so that a long run of settled keys at the end is passed only once.
    private func promoteLargest(_ state: LiveState) throws {
        guard let lower = state.lowerBound else { return }
        let largest = try integer(sql.largestTargetKey)
        guard let bound = try state.ceiling ?? largestSourceKey() else { return }
        if let largest, largest >= bound { return }
        // AUTOINCREMENT does not choose a rowid up to this number anyway.
        if let sequence = try statements.sequence(of: sql), sequence >= bound { return }
        let search = try statement(sql.largestPendingKey)
        defer { search.reset() }
        try search.bind(lower, at: 1)
        try search.bind(bound, at: 2)
        let found = try search.step() ? search.int64(at: 0) : nil
        search.reset()
        if let found, largest.map({ found > $0 }) ?? true {
            do {
                try promote(.rowID(found))
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                statements.refusal = .largest
                throw SQLiteError(
                    code: error.code,
                    message: "a new row cannot get the next rowid: the pending row with the largest rowid, \(found), "
                        + "must move first, and table \(name) refuses it (\(error.message)). Change or delete that "
                        + "row, or give the new row a rowid"
                )
            }
        }
        let ceiling = found ?? (lower == .min ? lower : lower - 1)
        if ceiling != state.ceiling {
            let store = try statement(TableUpdate.storeCeiling(id))
            defer { store.reset() }
            try store.bind(ceiling, at: 1)
            _ = try store.step()
            statements.internalChanges += 1
            statements.epoch += 1
        }
    }
}
