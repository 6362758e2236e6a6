internal import SQLText
internal import SQLiteConnection

// What the overlay tells the connection's watch.
extension Overlay {
    func noteMovingTables() {
        watch.twins = twins
        statements.fired.moving = Set(byName.keys)
        watch.moving = Dictionary(byName.map { ($0.value.name, $0.value.id) }) { first, _ in first }
        watch.enforced = keyActions.moving
    }

    func watchAccesses() throws {
        noteMovingTables()
        if !byName.isEmpty {
            watch.triggers = try TriggerTexts(connection: connection, moving: byName, views: twins)
        }
        try readContentTables()
        watchWhatIsNeeded()
    }

    /// Switches the watch on while tables move or sources are attached. If a transaction has dropped a name from the target, the
    /// name would mean a table of a source that is still attached.
    func watchWhatIsNeeded() {
        let isNeeded = !byName.isEmpty || hasSources
        guard watch.isWatching != isNeeded else { return }
        watch.isWatching = isNeeded
        // Setting the authorizer expires the statements that were prepared before.
        authorize()
    }

    /// Finds the virtual tables that read moving tables. The connection may make more of them at any time.
    func readContentTables() throws {
        let copies = watch.contents.copies
        watch.contents = ContentTables(copies: copies)
        if byName.isEmpty { return }
        let views = Set(twins.map(SQLIdentifier.lowercased))
        watch.contents = try ContentTables(connection: connection, moving: byName, views: views, copies: copies)
    }

    /// Makes the watch the connection's authorizer. The owner of a borrowed connection has an authorizer of its own, or none.
    func authorize() {
        if connection.isBorrowed { return }
        connection.setAuthorizer { [watch, statements] event in
            if statements.fired.isFiring { return statements.fired.decide(event) }
            if statements.isPreparing || !watch.isActive {
                // A row that is moved or promoted is not a new row, so the programs of triggers stay empty. A view that a virtual
                // table's own statement reads, prepared while another statement runs, must not stay empty.
                guard watch.isWatching, let accessor = event.accessor, accessor != CountedRows.numbers else {
                    return .allow
                }
                let isTrigger = watch.triggers.isTrigger(accessor) || OwnNames.isTrigger(accessor)
                return statements.isPreparing || isTrigger ? .ignore : .allow
            }
            return watch.decide(event)
        }
    }

    /// The moving tables that the program of a CREATE TRIGGER may read or write.
    func tablesTouched(by trigger: StatementOutline) -> Set<Int64> {
        TriggerTexts.touched(by: trigger, moving: byName, views: Set(twins.map(SQLIdentifier.lowercased)))
    }
}
