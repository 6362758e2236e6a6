internal import SQLText
internal import SQLiteConnection

/// Virtual tables of the application that read a moving table by statements of their own, as full-text tables with `content=T`
/// do. These statements name the table of `main`, so they would find only the target's rows.
///
/// A full-text table reads its content when a statement asks for a column, calls a function such as `snippet()`, takes a row out
/// of the index, or goes through the rows other than by MATCH. A search that asks for rowids reads only the index.
struct ContentTables {
    private struct Reader {
        /// The moving tables that the definition mentions. All moving tables if it mentions a view of one.
        var tables: Set<Int64>
        /// The columns that are not hidden, in lower case.
        var columns: Set<String>
        /// Whether ranking reads the content of rows, since the index lacks what ranking needs.
        var ranksByContent: Bool
        /// The CREATE VIRTUAL TABLE.
        var definition: StatementOutline
        /// The moving table that `content=` names, if any. A view has no entry here: its rows may be made of the rows of several
        /// tables.
        var content: Int64?
        /// The triggers that read the virtual table, make it read all rows, or make it read a row other than the one that fires
        /// the trigger.
        var triggers: Set<String>
    }

    /// The virtual tables by their names in lower case.
    private var readers: [String: Reader] = [:]
    /// The moving tables whose full-text tables the statement being prepared may hand to a function: the statement names the
    /// hidden column that has the full-text table's own name.
    private var handed: Set<Int64> = []
    private var callsUnknown = false
    /// The virtual tables that have a copy in `temp`. The copy reads the union tables: see `ContentCopies`.
    private(set) var copies: Set<String> = []
    var hasCopies: Bool { !copies.isEmpty }

    init(copies: Set<String> = []) { self.copies = copies }

    init(connection: Connection, moving: [String: MovingTable], views: Set<String>, copies: Set<String>) throws {
        self.copies = copies
        let masters = ["main.sqlite_master", "sqlite_temp_master"]
        func objects(_ condition: String) throws -> [(name: String, sql: String)] {
            let query = masters.map { "SELECT name, sql FROM \($0) WHERE \(condition)" }.joined(
                separator: " UNION ALL "
            )
            return try connection.fetchAll(query).map { (try $0.get(0), try $0.get(1)) }
        }
        for (name, sql) in try objects("type = 'table' AND sql LIKE 'CREATE VIRTUAL%'") {
            let lower = SQLIdentifier.lowercased(name)
            if OwnNames.isTable(lower) || moving[lower] != nil { continue }
            let outline = SQLScript(sql).outline()
            var tables = Set(moving.filter { outline.mentions([$0.key]) }.map(\.value.id))
            // Which of the moving tables a view reads is not looked up.
            if outline.mentions(views) { tables.formUnion(moving.values.map(\.id)) }
            if tables.isEmpty { continue }
            let columns = try connection.fetchAll("PRAGMA table_info(\(SQLIdentifier.quoted(name)))")
            readers[lower] = Reader(
                tables: tables,
                columns: Set(try columns.map { SQLIdentifier.lowercased(try $0.get("name", as: String.self)) }),
                ranksByContent: outline.mentions(["columnsize", "detail"]),
                definition: outline,
                content: ContentTrigger.option("content", of: outline).flatMap { moving[$0]?.id },
                triggers: []
            )
        }
        if readers.isEmpty { return }
        for (name, sql) in try objects("type = 'trigger'") {
            let outline = SQLScript(sql).outline()
            let isCommand = Self.commandsOfContent.contains { outline.mentions([$0]) }
            let owner = outline.onTable.flatMap { moving[SQLIdentifier.lowercased($0.name)] }
            for (reader, table) in readers where outline.mentions([reader]) {
                let isReading = isCommand || !outline.isComplete || Self.reads(of: reader, in: outline) > 0
                let writesOthers = owner.map { owner in
                    let content = owner.id == table.content ? owner.target : nil
                    return ContentTrigger(outline, on: content, reader: table.definition, reader).writesOtherRows
                }
                guard isReading || writesOthers ?? false else { continue }
                readers[reader]?.triggers.insert(name)
            }
        }
    }

    /// The full-text tables that a statement names itself and that have no copy yet.
    ///
    /// - Parameter isInOverlay: Whether `temp` shows a table or view of that name, in lower case, with all its rows.
    func names(readBy statement: StatementOutline, _ isInOverlay: (String) -> Bool) -> [String] {
        readers.filter { name, reader in
            !copies.contains(name) && Self.names(name, in: statement)
                && reader.definition.target?.schema.map { SQLIdentifier.equal($0, "main") } ?? true
                && !reader.definition.isTemporary && ["fts4", "fts5"].contains(Self.module(of: reader.definition))
                && ContentTrigger.option("content", of: reader.definition).map(isInOverlay) ?? false
        }.map(\.key)
    }

    mutating func noteCopy(_ name: String) { copies.insert(name) }

    mutating func forgetCopy(_ name: String) { copies.remove(name) }

    mutating func forgetCopies() { copies.removeAll() }

    private static func names(_ name: String, in statement: StatementOutline) -> Bool {
        statement.tableReferences.contains { reference in
            SQLIdentifier.equal(reference.name.name, name) && !statement.isHiddenByCommonTable(reference)
                && reference.name.schema.map { SQLIdentifier.equal($0, "main") } ?? true
        }
    }

    private static func module(of table: StatementOutline) -> String {
        let words = StatementWords(table)
        return words.tokens.indices.first { words[$0] == "using" }.map { words[$0 + 1] } ?? ""
    }

    /// Forgets the previous statement: another is about to be prepared.
    mutating func begin() {
        handed.removeAll()
        callsUnknown = false
    }

    /// The moving tables of which the statement needs all rows in the target.
    ///
    /// - Parameter owner: The moving table whose trigger causes the event. The trigger takes only the row that fires it out of
    ///   the index of this table, and that row is in the target: see ``ContentTrigger``.
    mutating func tables(neededBy event: AuthorizerEvent, of owner: Int64?) -> Set<Int64> {
        if readers.isEmpty { return [] }
        if event.action == .function {
            if let name = event.second, !Self.readsNothing(SQLIdentifier.lowercased(name)) { callsUnknown = true }
            return callsUnknown ? handed : []
        }
        // Such a trigger needs all rows whatever it does: before 3.20, SQLite reports no event of the table when it counts the
        // rows.
        if let accessor = event.accessor {
            let reading = readers.values.filter { $0.triggers.contains(accessor) }
            if !reading.isEmpty { return reading.reduce(into: []) { $0.formUnion($1.tables) } }
        }
        guard let name = event.first.map(SQLIdentifier.lowercased), let reader = readers[name] else { return [] }
        if copies.contains(name), event.schema == "temp" { return [] }
        switch event.action {
        // To take a row out of the index, the full-text table reads the row's old values.
        case .update, .delete: return owner != nil && owner == reader.content ? [] : reader.tables
        case .read:
            let column = event.second.map(SQLIdentifier.lowercased) ?? ""
            if reader.columns.contains(column) { return reader.tables }
            let isOwnName = column == name
            if reader.ranksByContent, isOwnName || column == "rank" { return reader.tables }
            if isOwnName { handed.formUnion(reader.tables) }
            return callsUnknown ? handed : []
        default: return []
        }
    }

    /// The moving tables of which a statement needs all rows in the target, as far as the statement's text tells.
    ///
    /// - Parameter views: The views that the statement names; `nil` if they are not known.
    func tables(neededBy statement: StatementOutline, views: [StatementOutline]?) -> Set<Int64> {
        guard !readers.isEmpty, Self.kindsThatRead.contains(statement.kind) else { return [] }
        var needed = tables(neededByInsert: statement)
        for (name, reader) in readers {
            let texts = (copies.contains(name) ? [] : [statement]) + (views ?? [])
            let counts = texts.map { Self.reads(of: name, in: $0) }
            // If the table is read several times, one of the reads may be no search.
            let isSearched =
                counts.reduce(0, +) == 1 && zip(texts, counts).allSatisfy { $1 == 0 || Self.searches($0, name) }
            if views == nil || texts.contains(where: { !$0.isComplete })
                || counts.contains(where: { $0 > 0 }) && !isSearched
            {
                needed.formUnion(reader.tables)
            }
        }
        return needed
    }

    private static let kindsThatRead: Set<StatementKind> = [.select, .insert, .update, .delete, .createTable]

    private static func reads(of name: String, in outline: StatementOutline) -> Int {
        outline.tableReferences.count { $0.context != .target && SQLIdentifier.equal($0.name.name, name) }
    }

    /// Whether a statement finds a table's rows by `name MATCH …` alone. With OR, it may find some of them by their rowids.
    private static func searches(_ outline: StatementOutline, _ name: String) -> Bool {
        if outline.mentions(["or"]) { return false }
        let words = StatementWords(outline)
        return words.tokens.indices.dropFirst().contains { place in
            words[place] == "match"
                && SQLIdentifier.equal(words.name(place - 1), name)
        }
    }

    /// The moving tables of which an INSERT needs all rows in the target. Such an INSERT replaces rows of the index, or gives one
    /// of the commands that are written as a value of the column with the table's own name.
    private func tables(neededByInsert insert: StatementOutline) -> Set<Int64> {
        guard insert.kind == .insert, let target = insert.target,
            let reader = readers[SQLIdentifier.lowercased(target.name)]
        else { return [] }
        if insert.mentions(["replace"]) { return reader.tables }
        guard let column = insert.columnNames.firstIndex(where: { SQLIdentifier.equal($0, target.name) }) else {
            return []
        }
        guard case .values(let rows, _)? = insert.source else { return reader.tables }
        let isOfIndex = rows.allSatisfy { row in
            row.indices.contains(column) && Self.isCommandOfIndex(insert.text(row[column]))
        }
        return isOfIndex ? [] : reader.tables
    }

    private static func readsNothing(_ function: String) -> Bool {
        ["match", "bm25", "matchinfo"].contains(function) || VolatileTerms.isStable(function)
    }

    /// Whether a value is the literal of a command that reads no content: `'delete'`, `'merge=500,8'`.
    private static func isCommandOfIndex(_ value: String) -> Bool {
        guard value.hasPrefix("'"), value.hasSuffix("'") else { return false }
        return commandsOfIndex.contains(
            SQLIdentifier.lowercased(String(value.dropFirst().dropLast().prefix { $0 != "=" }))
        )
    }

    private static let commandsOfIndex: Set<String> = [
        "delete", "delete-all", "optimize", "merge", "automerge", "crisismerge", "usermerge", "pgsz", "rank",
        "hashsize",
        "deletemerge", "secure-delete", "flush",
    ]
    /// Commands that read the content of all rows.
    private static let commandsOfContent = ["rebuild", "integrity-check"]
}
