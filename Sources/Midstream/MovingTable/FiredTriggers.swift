internal import SQLText
internal import SQLiteConnection

/// Watches the triggers that fire for rows which come into the target, if a migration asks for that.
///
/// Such a trigger runs on the connection that makes steps, which has no overlay, and on connections that promote and drain. It does
/// the same on each of them under three conditions: it touches no moving table, a failure undoes only its own row, and nothing that
/// it writes depends on a setting of the connection. Midstream refuses a trigger that does more: when the migration is added, and
/// if the schema has changed since, when the next row would fire the trigger.
final class FiredTriggers {
    private unowned let connection: Connection
    /// The names of the moving tables, in lower case.
    var moving: Set<String> = []
    /// The table, in lower case, for whose rows statements are being prepared or run that fire triggers.
    private var target: String?
    /// The accesses of programs that have yet to be confirmed, by the table in `target`. Some may be left from a row that the
    /// target refused.
    private var accesses: [String: Set<Access>] = [:]

    /// Whether statements are being prepared or run that fire triggers.
    var isFiring: Bool { target != nil }

    private struct Access: Hashable {
        /// The trigger or view; `nil` for a statement that runs on behalf of a virtual table.
        var accessor: String?
        /// The table of `main`, in lower case; `nil` if the access is of another kind.
        var table: String?
        var isWrite: Bool
    }

    init(connection: Connection) {
        self.connection = connection
    }

    // MARK: Watching

    /// Runs a statement that copies rows into the target.
    ///
    /// - Throws: ``MigrationError`` if the statement fires a trigger that must not fire. The caller must then undo what the trigger
    ///   did.
    func firing<Result>(_ sql: MoveSQL, _ copy: () throws -> Result) throws -> Result {
        let result: Result
        do {
            target = SQLIdentifier.lowercased(sql.targetName)
            defer { target = nil }
            result = try copy()
        }
        try confirm(sql)
        return result
    }

    /// The authorizer's decision while ``isFiring``.
    func decide(_ event: AuthorizerEvent) -> AuthorizerDecision {
        let accessor = event.accessor
        if let accessor, OwnNames.isTrigger(accessor) {
            // The guard triggers do nothing for a row that comes: the row was checked before.
            return .ignore
        }
        let writes: Set<AuthorizerAction> = [.insert, .update, .delete]
        let isWrite = writes.contains(event.action)
        var table: String?
        if isWrite || event.action == .read, event.schema.map({ SQLIdentifier.equal($0, "main") }) ?? true {
            table = event.first.map(SQLIdentifier.lowercased)
        }
        // Without an accessor, the statement itself reads the source and writes the target.
        if accessor != nil || (table.map { moving.contains($0) } ?? false && !isWrite) {
            accesses[target ?? "", default: []].insert(Access(accessor: accessor, table: table, isWrite: isWrite))
        }
        return .allow
    }

    // MARK: Before a migration begins

    /// - Throws: ``MigrationError``, which names the trigger and says what to do.
    func check(_ sql: MoveSQL) throws {
        try checkConstraints(sql)
        do {
            try firing(sql) { _ = try connection.prepare(sql.copyRow) }
        } catch let error as SQLiteError {
            accesses[SQLIdentifier.lowercased(sql.targetName)] = nil
            let triggers = try Triggers(connection)
            let function = error.message.split(separator: " ").last.map { SQLIdentifier.lowercased(String($0)) } ?? ""
            let name = triggers.all.values.first { $0.outline.mentions([function]) }?.name
            throw MigrationError(
                .unsupported,
                "\(name.map { "trigger \($0)" } ?? "a trigger") of table \(sql.targetName) cannot fire for rows that "
                    + "move: \(error.message), on the connection that moves the rows. Drop the trigger until the table "
                    + "has moved, or set firesTriggers = false",
                table: sql.targetName,
                cause: error
            )
        }
    }

    // MARK: What is right

    private struct Trigger {
        var name: String
        /// The table or view that the trigger is on, in lower case.
        var owner: String
        var outline: StatementOutline
        /// The words and signs of the trigger's text, in lower case.
        var tokens: [String]
    }

    private struct Triggers {
        var all: [String: Trigger] = [:]
        var views: Set<String> = []

        init(_ connection: Connection) throws {
            let sql = "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE type IN ('trigger', 'view')"
            for row in try connection.fetchAll(sql) {
                let (name, owner, text): (String, String, String) = (try row.get(1), try row.get(2), try row.get(3))
                if row[0] == .text("view") {
                    views.insert(name)
                } else if !OwnNames.isTrigger(name) {
                    all[name] = Trigger(
                        name: name,
                        owner: SQLIdentifier.lowercased(owner),
                        outline: SQLScript(text).outline(),
                        tokens: FiredTriggers.tokens(text)
                    )
                }
            }
        }
    }

    private static func tokens(_ text: String) -> [String] {
        let bytes = Array(text.utf8)
        return SQLTokenizer(text).filter { !$0.isTrivia }.map {
            SQLIdentifier.lowercased(String(decoding: bytes[$0.range], as: UTF8.self))
        }
    }

    /// Checks that triggers may do what their programs were seen to do.
    private func confirm(_ sql: MoveSQL) throws {
        let target = SQLIdentifier.lowercased(sql.targetName)
        guard let seen = accesses.removeValue(forKey: target) else { return }
        let triggers = try Triggers(connection)
        for access in seen where access.table.map(moving.union([target]).contains) ?? false {
            // To SQLite, the columns of NEW are the table's own.
            let trigger = access.accessor.flatMap { triggers.views.contains($0) ? nil : triggers.all[$0] }
            if let trigger, !access.isWrite, access.table == target, trigger.owner == target { continue }
            // The statement itself, if its source is a table that moves on while rows are still to come into it.
            if access.accessor == nil, access.table == sql.sourceInTarget.map(SQLIdentifier.lowercased) { continue }
            throw refusal(sql, access.accessor, triggers, "touches table \(access.table ?? ""), which moves")
        }
        for trigger in Set(seen.compactMap(\.accessor)).sorted().compactMap({ triggers.all[$0] }) {
            let isOwn = trigger.owner == target
            if isOwn, trigger.outline.mentions([target], from: trigger.outline.onTable?.range.upperBound ?? 0) {
                throw refusal(sql, trigger.name, triggers, "touches table \(sql.targetName), which moves")
            }
            if let words = Self.undoingMore(trigger.tokens, isOwn: isOwn) {
                throw refusal(
                    sql,
                    trigger.name,
                    triggers,
                    "has \(words), so a failure would undo more or less than one row"
                )
            }
        }
        try confirmTables(written: seen.filter(\.isWrite), sql, triggers)
    }

    /// The words in a text because of which a failure would undo something other than the statement that fails; `nil` if there are
    /// none.
    private static func undoingMore(_ tokens: [String], isOwn: Bool) -> String? {
        let raised = isOwn ? ["fail", "rollback", "ignore"] : ["fail", "rollback"]
        for (position, token) in tokens.enumerated() {
            let next = tokens.dropFirst(position + 1).prefix(2)
            switch token {
            case "raise" where next.first == "(" && raised.contains(next.last ?? ""):
                return "RAISE(\(next.last?.uppercased() ?? ""))"
            case "or", "conflict":
                if let word = next.first, ["fail", "rollback"].contains(word) {
                    return "\(token.uppercased()) \(word.uppercased())"
                }
            default: break
            }
        }
        return nil
    }

    /// Checks the tables that programs write.
    private func confirmTables(
        written: Set<Access>,
        _ sql: MoveSQL,
        _ triggers: Triggers
    ) throws {
        let reader = SchemaReader(connection: connection, schema: "main")
        let neighbors = try reader.foreignKeyNeighbors()
        for access in written {
            guard let name = access.table, let table = try reader.table(name) else { continue }
            if let words = Self.undoingMore(Self.tokens(table.sql), isOwn: false) {
                throw refusal(sql, access.accessor, triggers, "writes table \(table.name), which has \(words)")
            }
            if neighbors[name] != nil {
                throw refusal(
                    sql,
                    access.accessor,
                    triggers,
                    "writes table \(table.name), which a foreign key connects with another table: steps do not enforce "
                        + "foreign keys"
                )
            }
        }
    }

    /// Checks that the target has no ON CONFLICT clause: a plain INSERT does what the clause says.
    private func checkConstraints(_ sql: MoveSQL) throws {
        guard let table = try SchemaReader(connection: connection, schema: "main").table(sql.targetName),
            Self.tokens(table.sql).contains("conflict")
        else { return }
        throw MigrationError(
            .unsupported,
            "table \(table.name) has a constraint with ON CONFLICT, which could replace or leave out rows that move: triggers "
                + "cannot fire for them. Set firesTriggers = false",
            table: table.name
        )
    }

    private func refusal(_ sql: MoveSQL, _ accessor: String?, _ triggers: Triggers, _ why: String) -> MigrationError {
        let name = accessor.flatMap { triggers.all[$0]?.name }
        return MigrationError(
            .unsupported,
            "\(name.map { "trigger \($0)" } ?? "a trigger of table \(sql.targetName), by way of \(accessor ?? "a virtual table"),") "
                + "cannot fire for rows that move into table \(sql.targetName): it \(why). Drop the trigger until the "
                + "table has moved, or set firesTriggers = false",
            table: sql.targetName
        )
    }
}
