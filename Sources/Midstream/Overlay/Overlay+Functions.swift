internal import SQLText
internal import SQLiteConnection

// The functions that the TEMP objects of moving tables call.
extension Overlay {
    static let functions =
        [("midstream_conflict", -1), ("changes", 0), ("total_changes", 0)]
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
            // Nobody says when a statement of other code's begins.
            if connection.isBorrowed { forgetState() }
            guard values.count >= 2 else { throw SQLiteError(code: .misuse, message: "midstream_conflict needs a key") }
            guard let table = tables.byID[values[0].int64] else {
                schemaVersion = nil
                throw SQLiteError(
                    code: .error,
                    message: "a table has begun to move since this connection looked: try again"
                )
            }
            try table.resolveConflicts(values, from: 1)
        }
        try defineKeyFunctions(flags)
        // Natively these count no promotions, and may be used where the schema is not trusted.
        try connection.createFunction("changes", argumentCount: 0, flags: flags) { [weak self] _, result in
            guard let self else { throw Self.isGone }
            result.set(changes)
        }
        try connection.createFunction("total_changes", argumentCount: 0, flags: flags) { [weak self] _, result in
            guard let self else { throw Self.isGone }
            result.set(connection.totalChanges - statements.internalChanges)
        }
    }

    /// The functions that the TEMP triggers call for enforced keys.
    private func defineKeyFunctions(_ flags: FunctionFlags) throws {
        let bodies = [KeyActions.bringParent, KeyActions.bringEnds, KeyActions.bringReplaced]
        for ((name, count), body) in zip(KeyActions.functions, bodies) {
            try connection.createFunction(name, argumentCount: count, flags: flags) { [weak self] values, _ in
                guard let self else { throw Self.isGone }
                watch.noteBegun()
                if statements.isPromoting || values.count == 0 { return }
                try body(keyActions)(values)
            }
        }
    }

    /// Functions that could not all be defined, nor be taken off again, stay on a connection that other code opened.
    private static let isGone = SQLiteError(code: .misuse, message: "the connection's overlay could not be made")

    /// Its mere name keeps connections without the overlay, or with another, from writing a moving table.
    func defineFence(_ name: String) throws {
        try connection.createFunction(name, argumentCount: 0, flags: .innocuous) { _, _ in }
        fences.insert(name)
    }
}
