internal import SQLText
internal import SQLiteConnection

/// The guard triggers of a file.
struct GuardTriggers {
    /// The prefix of the names of the functions that guard triggers call as a fence.
    static let fence = "midstream_guard_"

    /// The table that each trigger is on, by the trigger's name.
    let tables: [String: String]
    /// The function that each trigger calls as a fence, by the trigger's name.
    let fences: [String: String]
    /// The text of each trigger, by the trigger's name.
    private let texts: [String: String]

    /// - Complexity: O(n) in the objects of the schema, which no index finds by their names.
    init(_ connection: Connection) throws {
        self.init(try Self.read(connection, where: "name LIKE 'midstream\\_%' ESCAPE '\\'"))
    }

    /// Reads the guard triggers of one move.
    init(_ connection: Connection, of id: Int64) throws {
        let names = MoveSQL.guards.map { MoveSQL.trigger($0, id) }
        guard let known = try connection.knownSchema("main") else {
            let list = names.map(SQLLiteral.quoted).joined(separator: ", ")
            self.init(try Self.read(connection, where: "name IN (\(list))"))
            return
        }
        self.init(
            names.flatMap(known.objects(named:)).filter { $0.type == "trigger" }.map {
                ($0.name, $0.table, $0.sql ?? "")
            }
        )
    }

    private typealias Trigger = (name: String, table: String, sql: String)

    private static func read(_ connection: Connection, where condition: String) throws -> [Trigger] {
        try connection.fetchAll(
            "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' AND \(condition)"
        ).map { (try $0.get(0), try $0.get(1), try $0.get(2)) }
    }

    private init(_ triggers: [Trigger]) {
        tables = Dictionary(triggers.map { ($0.name, $0.table) }) { first, _ in first }
        texts = Dictionary(triggers.map { ($0.name, $0.sql) }) { first, _ in first }
        fences = Dictionary(triggers.compactMap { trigger in Self.fence(in: trigger.sql).map { (trigger.name, $0) } }) {
            first,
            _ in first
        }
    }

    /// Whether a move's INSERT trigger passes on the values of exactly those keys that the target's table has. A connection without
    /// Midstream may have created or dropped a unique index since the trigger was created.
    func handOverKeys(of table: TableSchema, _ id: Int64) -> Bool {
        Self.handsOverKeys(of: table, text(ofInsert: id))
    }

    /// The text of a move's INSERT trigger.
    func text(ofInsert id: Int64) -> String? { texts[MoveSQL.trigger("insert", id)] }

    /// Whether an INSERT trigger with this text passes on exactly the table's keys.
    static func handsOverKeys(of table: TableSchema, _ text: String?) -> Bool {
        guard !table.hasOtherKeys, let text else { return false }
        let bytes = Array(text.utf8)
        let words = SQLTokenizer(text).filter { !$0.isTrivia }.map {
            SQLIdentifier.lowercased(SQLIdentifier.unquoted(String(decoding: bytes[$0.range], as: UTF8.self)))
        }
        let call = zip(words, words.dropFirst()).enumerated().first { $0.1 == ("midstream_conflict", "(") }
        guard let call else { return false }
        // Skips the move's number and, if it is there, the rowid; there is NULL in its place otherwise.
        let values = words.dropFirst(call.offset + 4)
        let keys = values.first == "new" ? values.dropFirst(3) : values
        let columns = zip(keys, zip(keys.dropFirst(), keys.dropFirst(2))).filter { $0.0 == "new" && $0.1.0 == "." }.map(
            \.1.1
        )
        return columns == MoveSQL.keyColumns(of: table).map { SQLIdentifier.lowercased(table.columns[$0].name) }
    }

    /// The function that a trigger calls as a fence. It comes after the table's names, which may resemble the function's name.
    private static func fence(in sql: String) -> String? {
        // This compares bytes, since connections are opened often, and searching in strings costs more than everything else about a
        // trigger.
        let (bytes, name) = (Array(sql.utf8), Array(fence.utf8))
        let starts = 0..<max(0, bytes.count - name.count)
        guard let start = starts.last(where: { bytes[$0] == name[0] && bytes[$0...].starts(with: name) }) else {
            return nil
        }
        let digits = bytes[(start + name.count)...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return fence + String(decoding: digits, as: UTF8.self)
    }
}

/// Checks whether a moving table is still the one that its migration began with.
///
/// Midstream's connections move all rows of a table before they change the table's definition. Other connections can change it at
/// any time, since the guard triggers only refuse writes. Then the pending rows no longer fit, and Midstream must neither read nor
/// move any.
struct GuardedTable {
    private let record: TableRecord
    private let triggers: GuardTriggers

    init(_ record: TableRecord, _ triggers: GuardTriggers) {
        self.record = record
        self.triggers = triggers
    }

    /// - Parameters:
    ///   - target: The target's table of the recorded name; `nil` if there is none.
    ///   - source: The source's table; `nil` if there is none.
    /// - Throws: ``MigrationError``, which says what to do.
    func check(_ target: TableSchema?, _ source: TableSchema?) throws {
        // Before this phase there are no guard triggers; after it no row is pending.
        guard record.phase == .copying else { return }
        let guards = MoveSQL.guards.compactMap { triggers.tables[MoveSQL.trigger($0, record.id)] }
        if let other = guards.first(where: { !SQLIdentifier.equal($0, record.target) }) {
            throw changed("was renamed to \(other)", "rename it back")
        }
        guard let target, let source else { return }
        if guards.count < MoveSQL.guards.count {
            throw changed("was dropped and created anew, or lost its triggers", "restore the file")
        }
        try checkOrigins(source)
        let origins = Dictionary(record.columns.map { (SQLIdentifier.lowercased($0.name), $0.origin) }) { first, _ in
            first
        }
        let missing = target.columns.map(\.name).filter {
            switch origins[SQLIdentifier.lowercased($0)] {
            case nil: source.columnIndex($0) == nil
            case .left: true
            case .column, .expression: false
            }
        }
        if !missing.isEmpty {
            throw changed(
                "got the column \(missing.joined(separator: ", ")), for which the rows that have yet to move have no "
                    + "values",
                "drop the column, or give it its former name"
            )
        }
    }

    /// Checks that the condition and what the target's columns are made of still mean what they meant.
    private func checkOrigins(_ source: TableSchema) throws {
        for column in record.columns where column != .joined {
            switch column.origin {
            case .column(let name) where !source.hasColumn(name): throw lost(name)
            // Another column may have taken this one's place by now, and this one may be called like a column that is taken.
            case .left where !source.hasColumn(column.name): throw lost(column.name)
            default: break
            }
        }
        for text in record.expressions {
            let names = ExpressionShape.doubleQuotedNames(in: text)
            if let name = names.first(where: { !source.hasColumn($0) }) { throw lost(name) }
        }
        try Self.checkWords(of: record, source)
    }

    /// Checks that no word of the condition or an expression that means the rowid or a truth value has become a column.
    static func checkWords(of record: TableRecord, _ source: TableSchema) throws {
        for text in record.expressions {
            guard let word = source.misreadWords(in: text).first(where: \.isColumn) else { continue }
            throw MigrationError(
                .sourceChanged,
                "a program without Midstream has given source table \(record.source) a column \(word.name), but in the "
                    + "condition or an expression of table \(record.target) that word means something else: drop or "
                    + "rename the column",
                table: record.target
            )
        }
    }

    private func lost(_ column: String) -> MigrationError {
        MigrationError(
            .sourceChanged,
            "a program without Midstream has renamed or dropped column \(column) of source table \(record.source), "
                + "from which table \(record.target) is moving: give the column its name back",
            table: record.target
        )
    }

    private func changed(_ what: String, _ remedy: String) -> MigrationError {
        MigrationError(
            .unequalTables,
            "a connection without Midstream has changed table \(record.target), which is moving: it \(what). To go on, "
                + "\(remedy). Then change the table through Midstream, which moves its rows first",
            table: record.target
        )
    }
}
