internal import SQLText
internal import SQLiteConnection

// The functions that the TEMP objects of moving tables call.
extension Overlay {
    static let functions =
        [("midstream_conflict", -1), (Promotion.function, 2), ("changes", 0), ("total_changes", 0)]
        + [("midstream_hash", -1)] + KeyActions.functions + StoredValue.names.map { ($0, 1) }

    func defineFunctions() throws {
        try StoredValue.define(on: connection)
        try RowHash.define(on: connection)
        let flags: FunctionFlags = .innocuous
        try connection.createFunction("midstream_conflict", argumentCount: -1, flags: flags) {
            [weak self] values, _ in
            guard let self else { throw Self.isGone }
            watch.noteBegun()
            if statements.isPromoting { return }
            let table = try table(values)
            try beforeDirectWrite?(table)
            try table.resolveConflicts(values, from: 1)
        }
        try connection.createFunction(Promotion.function, argumentCount: 2, flags: flags) {
            [weak self] values, result in
            guard let self else { throw Self.isGone }
            // The union table that gives the key has noted the statement.
            let table = try table(values)
            let key = values[1].int64
            try keepingLastInsertRowID {
                for feed in table.feeds { try feed.promoteIfPending(.rowID(key), feed.state()) }
            }
            result.set(key)
        }
        try defineKeyFunctions(flags)
        try defineCounts()
    }

    /// Defines `changes()` and `total_changes()` so that they count no promotions. While a statement runs, SQLite lets nobody replace its
    /// functions: then Midstream does so when SQLite plans a statement on a union table. Before that, nothing is promoted.
    func defineCounts() throws {
        lacksCounts = connection.isBorrowed && connection.hasBusyStatement
        if lacksCounts { return }
        // The native ones may be used where the schema is not trusted.
        let flags: FunctionFlags = .innocuous
        try connection.createFunction("changes", argumentCount: 0, flags: flags) { [weak self] _, result in
            guard let self else { throw Self.isGone }
            result.set(changes)
        }
        try connection.createFunction("total_changes", argumentCount: 0, flags: flags) { [weak self] _, result in
            guard let self else { throw Self.isGone }
            result.set(connection.totalChanges - statements.internalChanges)
        }
    }

    /// The moving table whose number is a function's first argument.
    private func table(_ values: ValueReferences) throws -> MovingTable {
        guard values.count >= 2 else {
            throw SQLiteError(code: .misuse, message: "the function needs a table and a key")
        }
        if let table = tables.byID[values[0].int64] { return table }
        schemaVersion = nil
        throw SQLiteError(
            code: .error,
            message: "a table has begun to move since this connection last checked: try again"
        )
    }

    /// Defines the functions that the TEMP triggers call for enforced foreign keys.
    private func defineKeyFunctions(_ flags: FunctionFlags) throws {
        let bodies = [KeyActions.bringParent, KeyActions.bringEnds, KeyActions.bringReplaced]
        for ((name, count), body) in zip(KeyActions.functions, bodies) {
            try connection.createFunction(name, argumentCount: count, flags: flags) { [weak self] values, _ in
                guard let self else { throw Self.isGone }
                watch.noteBegun()
                if statements.isPromoting || values.count == 0 { return }
                // Nothing reports when other code switches enforcement on or off.
                let isEnforced = connection.isOn(.foreignKeys)
                do {
                    try beforeKeyActions?(isEnforced)
                    if isEnforced { try body(keyActions)(values) }
                } catch {
                    keyActions.forgetRow()
                    throw error
                }
            }
        }
    }

    /// For functions that stay on a connection that other code opened: not all of them could be defined, nor could the others be
    /// removed.
    private static let isGone = SQLiteError(code: .misuse, message: "the connection's overlay could not be made")

    /// Defines the function that guard triggers name. A connection without the overlay, or with the overlay of another move,
    /// lacks this name, so SQLite refuses the connection's writes of the moving table.
    func defineFence(_ name: String) throws {
        try connection.createFunction(name, argumentCount: 0, flags: .innocuous) { _, _ in }
        fences.insert(name)
    }
}
