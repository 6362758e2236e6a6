internal import SQLText
internal import SQLiteConnection

/// What the application's triggers in `main` may do with moving tables, as far as the triggers' texts tell.
///
/// SQLite tells the watch what a trigger's program reads. But to SQLite, the columns of NEW and OLD are the table's own. A program
/// that mentions no moving table, nor a view of one, reads nothing of the table except these columns. They are right, since the row
/// that fires the trigger is in the target.
struct TriggerTexts {
    /// The names of all triggers, in lower case.
    private(set) var names: Set<String> = []
    /// The moving tables that a trigger's program may read or write, by the trigger's name.
    private(set) var touched: [String: Set<Int64>] = [:]
    /// For triggers on moving tables whose programs mention no moving table: the table that the trigger is on, by the trigger's
    /// name.
    private(set) var rowReaders: [String: Int64] = [:]
    /// The moving tables that have triggers of the application.
    private(set) var tables: Set<Int64> = []
    /// The names, in lower case, of the tables and views that have triggers of the application.
    private(set) var owners: Set<String> = []
    /// The names, in lower case, of the tables and views that have INSERT triggers of the application.
    private(set) var insertOwners: Set<String> = []
    /// The moving tables with triggers that would do something on a promotion, although a promotion must not fire them and the
    /// watch leaves their programs empty. When the watch denies an INSERT or a SELECT, SQLite leaves it out. But a DELETE deletes
    /// rows nevertheless. An UPDATE sets no column except the rowid, and fires the next triggers. And SQLite crashes if the query
    /// of an IN is left out, or in WHEN a query with which a row value is compared.
    private(set) var unsilenced: Set<Int64> = []
    /// Whether a trigger's program may ask for `changes()`.
    var asksForChanges = false

    init() {}

    func isTrigger(_ name: String) -> Bool { names.contains(SQLIdentifier.lowercased(name)) }

    /// - Parameters:
    ///   - moving: The moving tables, by their names in lower case.
    ///   - views: The names of the views that read moving tables.
    init(connection: Connection, moving: [String: MovingTable], views: Set<String>) throws {
        let views = Set(views.map(SQLIdentifier.lowercased))
        // SQLite tells the watch of these objects in the same way as of a trigger with the same name.
        let others: Set<String> = Set(
            try connection.fetchAll(
                "SELECT name FROM main.sqlite_master WHERE type = 'view' "
                    + "UNION ALL SELECT name FROM sqlite_temp_master WHERE type <> 'table'"
            ).map { SQLIdentifier.lowercased(try $0.get(0, as: String.self)) }
        )
        asksForChanges = try Self.mayAskForChangesElsewhere(connection)
        for row in try connection.fetchAll("SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger'") {
            let (name, sql): (String, String) = (try row.get(0), try row.get(1))
            names.insert(SQLIdentifier.lowercased(name))
            if OwnNames.isTrigger(name) { continue }
            let outline = SQLScript(sql).outline()
            let read = Self.touched(by: outline, moving: moving, views: views)
            if !read.isEmpty { touched[name] = read }
            if outline.mentions(["changes"]) { asksForChanges = true }
            guard let owner = outline.onTable else { continue }
            noteOwner(owner.name)
            let firesForInsert = outline.fires(sql, for: "insert")
            if firesForInsert { insertOwners.insert(SQLIdentifier.lowercased(owner.name)) }
            guard let table = moving[SQLIdentifier.lowercased(owner.name)] else { continue }
            tables.insert(table.id)
            if !table.feeds.allSatisfy(\.sql.firesTriggers), firesForInsert,
                outline.mentions(["update", "delete", "in"], from: owner.range.upperBound)
                    || Self.mayCompareRows(sql, from: owner.range.upperBound)
            {
                unsilenced.insert(table.id)
            }
            if read.isEmpty, outline.isComplete, !others.contains(SQLIdentifier.lowercased(name)) {
                rowReaders[name] = table.id
            }
        }
    }

    /// Whether a view or a TEMP trigger may ask for `changes()`. A trigger's program may do so through it.
    private static func mayAskForChangesElsewhere(_ connection: Connection) throws -> Bool {
        try connection.fetchAll(
            "SELECT sql FROM main.sqlite_master WHERE type = 'view' "
                + "UNION ALL SELECT sql FROM sqlite_temp_master WHERE type IN ('view', 'trigger')"
        ).contains { row in
            let sql: String = try row.get(0)
            // Few texts mention it, and each connection that is opened checks all of them.
            let mayMention = SQLIdentifier.lowercased(sql).utf8.firstRange(of: "changes".utf8) != nil
            return mayMention && SQLScript(sql).outline().mentions(["changes"])
        }
    }

    /// Whether WHEN may compare a row value with a query: the condition has a query, and something with several parts.
    private static func mayCompareRows(_ sql: String, from start: Int) -> Bool {
        let bytes = Array(sql.utf8)
        let words = SQLTokenizer(sql).filter { $0.range.lowerBound >= start && !$0.isTrivia }.map {
            SQLIdentifier.lowercased(String(decoding: bytes[$0.range], as: UTF8.self))
        }
        // A column may be called `begin` as well, so this takes the last one.
        let condition = words.prefix(upTo: words.lastIndex(of: "begin") ?? words.endIndex)
        return condition.contains(",") && (condition.contains("select") || condition.contains("values"))
    }

    /// Notes that a table or view has a trigger, even one that the open transaction has created.
    mutating func noteOwner(_ name: String) {
        owners.insert(SQLIdentifier.lowercased(name))
    }

    /// Notes that a TEMP trigger with this name may be created: a program of this name then no longer certainly reads only its own
    /// row.
    mutating func noteNamesake(of name: String) {
        rowReaders = rowReaders.filter { !SQLIdentifier.equal($0.key, name) }
    }

    /// The moving tables that a CREATE TRIGGER's program may read or write.
    static func touched(
        by trigger: StatementOutline,
        moving: [String: MovingTable],
        views: Set<String>
    ) -> Set<Int64> {
        let start = trigger.onTable?.range.upperBound ?? trigger.range.lowerBound
        // A view may read any of the moving tables.
        if !views.isEmpty, trigger.mentions(views, from: start) { return Set(moving.values.map(\.id)) }
        return Set(moving.filter { trigger.mentions([$0.key], from: start) }.values.map(\.id))
    }
}
