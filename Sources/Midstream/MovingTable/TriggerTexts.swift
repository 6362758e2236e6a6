internal import SQLText
internal import SQLiteConnection

/// What the application's triggers in `main` may do with moving tables, as far as their texts tell.
///
/// SQLite tells the watch of a trigger's program what it reads, but the columns of NEW and OLD are to it the table's own.
/// A program that mentions no moving table, nor a view of one, reads nothing of a table but those: they are right, since
/// the row that fires it is in the target.
struct TriggerTexts {
    /// The names of all triggers, in lower case.
    private(set) var names: Set<String> = []
    /// The tables that a trigger's program may read or write, by the trigger's name.
    private(set) var touched: [String: Set<Int64>] = [:]
    /// The moving table that a trigger is on whose program mentions none, by the trigger's name.
    private(set) var rowReaders: [String: Int64] = [:]
    /// The moving tables that have triggers of the application's.
    private(set) var tables: Set<Int64> = []
    /// The tables and views that have triggers of the application's, by their names in lower case.
    private(set) var owners: Set<String> = []
    /// The tables and views that have triggers of the application's for INSERT, likewise.
    private(set) var insertOwners: Set<String> = []
    /// The moving tables with triggers that would do something for a promotion although it is not to fire them and the watch
    /// leaves their programs empty. SQLite leaves out an INSERT and a SELECT. It deletes rows all the same; an UPDATE sets no
    /// column, but the rowid, and fires the next triggers; and it crashes when the query of an IN is left out, or in WHEN one
    /// that a row value is compared with.
    private(set) var unsilenced: Set<Int64> = []
    /// Whether a program may ask for `changes()`.
    var asksForChanges = false

    init() {}

    func isTrigger(_ name: String) -> Bool { names.contains(SQLIdentifier.lowercased(name)) }

    /// - Parameters:
    ///   - moving: The moving tables by their names in lower case.
    ///   - views: The names of the views that read them.
    init(connection: Connection, moving: [String: MovingTable], views: Set<String>) throws {
        let views = Set(views.map(SQLIdentifier.lowercased))
        // The watch is told of whatever has one of these names in the same way.
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

    /// Whether a view, or a TEMP trigger, may ask for `changes()`, which a trigger's program may do by way of it.
    private static func mayAskForChangesElsewhere(_ connection: Connection) throws -> Bool {
        try connection.fetchAll(
            "SELECT sql FROM main.sqlite_master WHERE type = 'view' "
                + "UNION ALL SELECT sql FROM sqlite_temp_master WHERE type IN ('view', 'trigger')"
        ).contains { row in
            let sql: String = try row.get(0)
            // Few do, and each connection that is opened asks.
            let mayMention = SQLIdentifier.lowercased(sql).utf8.firstRange(of: "changes".utf8) != nil
            return mayMention && SQLScript(sql).outline().mentions(["changes"])
        }
    }

    /// Whether a row value may be compared with a query in WHEN: there is a query, and something has several parts.
    private static func mayCompareRows(_ sql: String, from start: Int) -> Bool {
        let bytes = Array(sql.utf8)
        let words = SQLTokenizer(sql).filter { $0.range.lowerBound >= start && !$0.isTrivia }.map {
            SQLIdentifier.lowercased(String(decoding: bytes[$0.range], as: UTF8.self))
        }
        // A column may be called like that as well.
        let condition = words.prefix(upTo: words.lastIndex(of: "begin") ?? words.endIndex)
        return condition.contains(",") && (condition.contains("select") || condition.contains("values"))
    }

    /// Notes that a table or view has a trigger, be it created in the open transaction.
    mutating func noteOwner(_ name: String) {
        owners.insert(SQLIdentifier.lowercased(name))
    }

    /// Notes that a TEMP trigger of that name may be made: what a program of the name reads is its row alone no longer.
    mutating func noteNamesake(of name: String) {
        rowReaders = rowReaders.filter { !SQLIdentifier.equal($0.key, name) }
    }

    /// The moving tables that the program of a CREATE TRIGGER may read or write.
    static func touched(
        by trigger: StatementOutline,
        moving: [String: MovingTable],
        views: Set<String>
    ) -> Set<Int64> {
        let start = trigger.onTable?.range.upperBound ?? trigger.range.lowerBound
        // What a view reads may be any of them.
        if !views.isEmpty, trigger.mentions(views, from: start) { return Set(moving.values.map(\.id)) }
        return Set(moving.filter { trigger.mentions([$0.key], from: start) }.values.map(\.id))
    }
}
