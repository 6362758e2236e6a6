internal import SQLText
internal import SQLiteConnection

/// The part of the target's schema that the overlay of a borrowed connection depends on. On such a connection Midstream
/// has no authorizer. So it looks at the schema itself: when the overlay is made, and when the schema has changed
/// since.
struct SchemaWatch {
    private let statements: InternalStatements

    /// The schema's version when the schema was last looked at.
    private var knownVersion: Int64?
    /// `PRAGMA data_version` of that look, if a transaction was open that may have changed the schema. This number
    /// tells whether another connection has committed since. The schema's version does not: if the transaction is
    /// undone, the next change may get the same version.
    private var knownData: Int64?
    /// The objects that mentioned a moving table when the overlay was made.
    private var knownObjects: [SchemaObject] = []
    /// The names, in lower case, of the tables that moved when the overlay was made, and of the views that read them.
    private var names: Set<String> = []
    private var tables: Set<MovingID> = []
    /// The tables, by their names in lower case, that foreign keys connect with moving ones.
    private var tied: Set<String> = []
    /// The definitions of these tables and of their indexes when the overlay was made.
    private var tiedObjects: [SchemaObject] = []

    private struct MovingID: Hashable {
        var id: Int64
        var isReturning: Bool
        /// The table of another file that has taken this move over, if any: see ``TableRecord/destination``.
        var destination: String?
    }

    init(statements: InternalStatements) {
        self.statements = statements
    }

    private struct SchemaObject: Hashable {
        var type: String
        var name: String
        var table: String
        var sql: String

        var isTrigger: Bool { type == "trigger" }
        var isOurs: Bool { isTrigger ? OwnNames.isTrigger(name) : OwnNames.isTable(type == "index" ? table : name) }
        var outline: StatementOutline { SQLScript(sql).outline() }

        func mentions(_ names: Set<String>) -> Bool {
            names.contains(SQLIdentifier.lowercased(table)) || outline.mentions(names)
        }
    }

    // MARK: Before the overlay is made

    /// Makes sure that the expressions of the migration and the definitions of its tables mean the same on this
    /// connection as to the steps, which have SQLite's own functions and collations.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_function_list>.
    private static func checkMeanings(_ moving: [TableRecord], _ objects: [SchemaObject], _ connection: Connection)
        throws
    {
        let meanings = try Meanings(connection)
        if meanings.areSQLites { return }
        for record in moving {
            let definitions = objects.filter {
                ["table", "index"].contains($0.type) && SQLIdentifier.equal($0.table, record.target)
            }
            let expressions = record.expressions.map { SQLScript("SELECT \($0)").outline() }
            try meanings.check(expressions, definitions.map(\.outline), record.target)
        }
    }

    /// Makes sure that the columns of sources mean the same on this connection as to the steps: the columns that are
    /// generated as they are read, and those that the migration's expressions may name.
    static func checkMeanings(ofSourcesOf moves: [Overlay.Move], _ connection: Connection) throws {
        // An expression of the migration compares a column by the column's collation.
        let texts = moves.map { move in
            GeneratedColumns(createTable: move.source.sql).unstored
                + (move.record.expressions.isEmpty
                    ? [] : move.source.columns.map { "1 COLLATE \(SQLIdentifier.quoted($0.collation))" })
        }
        if texts.allSatisfy(\.isEmpty) { return }
        let meanings = try Meanings(connection)
        if meanings.areSQLites { return }
        for (move, texts) in zip(moves, texts) {
            try meanings.check([], texts.map { SQLScript("SELECT \($0)").outline() }, move.record.target)
        }
    }

    /// The functions and collations of a connection that may differ from SQLite's own.
    private struct Meanings {
        private let functions: Set<String>
        private let collations: Set<String>

        init(_ connection: Connection) throws {
            functions = Set(added(to: connection).subtracting(addedToAny).map(\.name))
            collations = Set(
                try ownCollations.filter { try connection.fetchOne("SELECT 1 WHERE \($0.value)") == nil }.map(\.key)
            )
        }

        var areSQLites: Bool { functions.isEmpty && collations.isEmpty }

        /// - Parameters:
        ///   - expressions: The expressions of the migration.
        ///   - definitions: The definitions of tables and of what belongs to them. If a definition uses a function that
        ///     is not built in, the steps lack that function, and report so.
        func check(_ expressions: [StatementOutline], _ definitions: [StatementOutline], _ table: String) throws {
            let outlines = expressions + definitions
            let function =
                calls(of: expressions).first(where: functions.contains)
                ?? calls(of: outlines).first { functions.contains($0) && builtIn.contains($0) }
            let collation = collations.first { name in outlines.contains { $0.mentions([name]) } }
            guard let what = function.map({ "function \($0)" }) ?? collation.map({ "collation \($0)" }) else { return }
            throw MigrationError(
                .unsupported,
                "the connection has a \(what) of its own, and with it the migration of table \(table) would take other "
                    + "rows or values than with SQLite's: give it another name until the table has moved",
                table: table
            )
        }
    }

    /// The functions that the texts call, including those of the operators GLOB and LIKE.
    private static func calls(of outlines: [StatementOutline]) -> Set<String> {
        Set(
            outlines.flatMap { outline in
                outline.functionCalls.map(\.name) + ["glob", "like"].filter { outline.mentions([$0]) }
            }
        )
    }

    /// SQLite's collations except BINARY, which always means the same. Each has a condition that tells it from another
    /// collation of the same name.
    private static let ownCollations = [
        "nocase": "'aZ' = 'Az' COLLATE NOCASE AND '_' < 'A' COLLATE NOCASE AND '\u{c9}' <> '\u{e9}' COLLATE NOCASE",
        "rtrim": "'a  ' = 'a' COLLATE RTRIM AND 'a' <> 'A' COLLATE RTRIM AND '\u{c9}' < '\u{e9}' COLLATE RTRIM",
    ]

    private struct Function: Hashable {
        var name: String
        var argumentCount: Int64
    }

    /// The functions that every connection of the library has besides the built-in ones.
    private static let addedToAny = (try? Connection(path: ":memory:")).map(added) ?? []

    /// The built-in functions, and others that every connection has.
    private static let builtIn = Set(
        ((try? Connection(path: ":memory:").fetchAll("SELECT DISTINCT lower(name) FROM pragma_function_list")) ?? [])
            .compactMap { try? $0.get(0, as: String.self) }
    )

    /// The functions of a connection that are not built in, except Midstream's own. Empty for SQLite before 3.30, which
    /// does not list its functions.
    private static func added(to connection: Connection) -> Set<Function> {
        let rows = try? connection.fetchAll("SELECT name, narg FROM pragma_function_list WHERE NOT builtin")
        return Set(
            (rows ?? []).compactMap { row in
                guard let name: String = try? row.get(0), let count: Int64 = try? row.get(1) else { return nil }
                let folded = SQLIdentifier.lowercased(name)
                return folded.hasPrefix(OwnNames.prefix) ? nil : Function(name: folded, argumentCount: count)
            }
        )
    }

    /// - Parameter overlaid: The names, in lower case, of what the present overlay has in `temp`.
    /// - Returns: The traits of views and triggers.
    /// - Throws: ``MigrationError`` if something would read or write a moving table past the overlay.
    mutating func admit(
        _ moving: [TableRecord],
        _ connection: Connection,
        overlaid: Set<String>
    ) throws -> QueryTraits {
        let main = try objects("main.sqlite_master")
        let temporary = try objects("sqlite_temp_master")
        let moved = Set(moving.map { SQLIdentifier.lowercased($0.target) })
        let reached = Self.reached(from: moved, by: main)
        try Self.checkHiding(temporary, of: reached, overlaid)
        try Self.checkPrograms(main + temporary, of: moved, reached)
        try Self.checkMeanings(moving, main, connection)
        try Self.checkShapes(of: moving, connection)
        names = reached
        tables = Set(moving.map { MovingID(id: $0.id, isReturning: $0.isReturning, destination: $0.destination) })
        knownObjects = main.filter(isWatched)
        knownVersion = nil
        statements.isStateGone = false
        var traits = QueryTraits()
        for object in main + temporary where object.isTrigger || object.type == "view" { traits.add(object.outline) }
        return traits
    }

    /// Makes sure that the application has nothing in `temp` by the name of a moving table, or of a view of one.
    private static func checkHiding(_ temporary: [SchemaObject], of reached: Set<String>, _ overlaid: Set<String>)
        throws
    {
        let hiding = temporary.first { object in
            let name = SQLIdentifier.lowercased(object.name)
            return !object.isTrigger && object.type != "index" && reached.contains(name) && !overlaid.contains(name)
        }
        guard let hiding else { return }
        throw MigrationError(
            .unsupported,
            "the connection has a TEMP \(hiding.type) \(hiding.name), which hides the moving table or view of that "
                + "name: drop it until the table has moved, or give it another name",
            table: hiding.name
        )
    }

    /// Makes sure that no trigger and no virtual table reads or writes a moving table, or a view of one.
    private static func checkPrograms(_ objects: [SchemaObject], of moved: Set<String>, _ reached: Set<String>) throws {
        for object in objects where !object.isOurs {
            if object.isTrigger, moved.contains(SQLIdentifier.lowercased(object.table)) || object.mentions(reached) {
                throw refusal("trigger \(object.name)", object, moved)
            }
            let outline = object.type == "table" ? object.outline : nil
            if outline?.kind == .createVirtualTable, !moved.contains(SQLIdentifier.lowercased(object.name)),
                object.mentions(reached)
            {
                throw refusal("virtual table \(object.name)", object, moved)
            }
        }
    }

    /// Makes sure that each moving table has one source, has rowids, and has no keys that its guard triggers do not
    /// pass on.
    private static func checkShapes(of moving: [TableRecord], _ connection: Connection) throws {
        let guards = try GuardTriggers(connection)
        for record in moving {
            let others = moving.filter { SQLIdentifier.equal($0.target, record.target) && $0.id != record.id }
            if !others.isEmpty {
                throw MigrationError(
                    .unsupported,
                    "table \(record.target) has rows to come from several sources: only a Database can use it while it moves",
                    table: record.target
                )
            }
            guard let table = try SchemaReader(connection: connection, schema: "main").table(record.target) else {
                continue
            }
            let hasOtherKeys = !guards.handOverKeys(of: table, record.id)
            if !table.hasRowID || hasOtherKeys || table.columns.contains(where: { $0.generation != nil }) {
                throw MigrationError(
                    .unsupported,
                    "table \(table.name) has no rowid, or generated columns, or a unique index that is partial, has an expression, or "
                        + "was made or dropped without Midstream while it moves: only a Database can use it while it moves",
                    table: table.name
                )
            }
        }
    }

    private static func refusal(_ what: String, _ object: SchemaObject, _ moved: Set<String>) -> MigrationError {
        let table = moved.sorted().first { object.mentions([$0]) }
        return MigrationError(
            .unsupported,
            "\(what) mentions \(table.map { "table \($0), which" } ?? "a table that") is moving, and would see only a "
                + "part of its rows: only a Database can prevent that. Let the table finish moving first, or drop the "
                + (object.isTrigger ? "trigger" : "virtual table") + " until then",
            table: table
        )
    }

    /// The given names, and those of the views that mention one of them, directly or through other views.
    private static func reached(from names: Set<String>, by objects: [SchemaObject]) -> Set<String> {
        var reached = names
        var views = objects.filter { $0.type == "view" }
        while let position = views.firstIndex(where: { $0.mentions(reached) }) {
            reached.insert(SQLIdentifier.lowercased(views.remove(at: position).name))
        }
        return reached
    }

    /// Notes which tables have triggers for foreign keys.
    mutating func noteTied(_ names: some Sequence<String>) throws {
        // Nothing has changed since the last look.
        guard knownVersion == nil else { return }
        tied = Set(names)
        tiedObjects = tied.isEmpty ? [] : try objects("main.sqlite_master").filter(isTied)
    }

    private func isTied(_ object: SchemaObject) -> Bool {
        !object.isTrigger && tied.contains(SQLIdentifier.lowercased(object.table))
    }

    // MARK: While it stands

    /// Looks at the schema again if it has changed, and notes whether the stored state still exists. Midstream must not
    /// find that out from an error: on such an error, SQLite looks at the schemas of all files, and if one has changed,
    /// SQLite ends the statements that run.
    ///
    /// - Returns: Whether the schema may have changed since the last look.
    /// - Throws: `SQLiteError` when the overlay does not fit the schema.
    mutating func check() throws -> Bool {
        guard let current = try number("schema_version") else { return false }
        if current == knownVersion, try knownData == nil || knownData == number("data_version") { return false }
        let all = try objects("main.sqlite_master")
        statements.isStateGone = !all.contains { $0.name == "midstream_tables" }
        // When a table's move ends, the schema changes too. The overlay need not be renewed then, since no pending row
        // is left.
        if try movingTables().contains(where: { !tables.contains($0) }) {
            throw Self.stale("a table has begun to move, to move on, or to move back")
        }
        if all.filter(isWatched) != knownObjects {
            throw Self.stale("the definition of a moving table, or of an object that mentions one, has changed")
        }
        if !tied.isEmpty, statements.connection.isOn(.foreignKeys), all.filter(isTied) != tiedObjects {
            throw Self.stale("the definition of a table that foreign keys connect with a moving one has changed")
        }
        knownData = statements.connection.isInTransaction ? try number("data_version") : nil
        knownVersion = current
        return true
    }

    private func number(_ pragma: String) throws -> Int64? {
        let statement = try statements.statement("PRAGMA main.\(pragma)")
        defer { statement.reset() }
        return try statement.step() ? statement.int64(at: 0) : nil
    }

    private static func stale(_ reason: String) -> SQLiteError {
        SQLiteError(
            code: .error,
            message: "\(reason) since this connection's overlay was made: call MigrationOverlay.refresh, and try again"
        )
    }

    private func isWatched(_ object: SchemaObject) -> Bool {
        !object.isOurs && object.mentions(names)
    }

    private func movingTables() throws -> [MovingID] {
        if statements.isStateGone { return [] }
        let statement = try statements.statement(
            "SELECT id, undo_stage IS NOT NULL, target FROM main.midstream_tables WHERE phase = ?1"
        )
        defer { statement.reset() }
        try statement.bind(MigrationPhase.copying.rawValue, at: 1)
        let claims = try Claims.all(in: "main", statements.connection)
        var ids: [MovingID] = []
        while try statement.step() {
            guard case .text(let target) = statement.value(at: 2) else { continue }
            ids.append(
                MovingID(
                    id: statement.int64(at: 0),
                    isReturning: statement.int64(at: 1) != 0,
                    destination: StateStore.destination(of: target, claims)
                )
            )
        }
        return ids
    }

    private func objects(_ master: String) throws -> [SchemaObject] {
        let statement = try statements.statement(
            "SELECT type, name, tbl_name, sql FROM \(master) WHERE sql IS NOT NULL ORDER BY type, name"
        )
        defer { statement.reset() }
        var objects: [SchemaObject] = []
        while try statement.step() {
            func text(_ index: Int) -> String {
                if case .text(let text) = statement.value(at: index) { text } else { "" }
            }
            objects.append(SchemaObject(type: text(0), name: text(1), table: text(2), sql: text(3)))
        }
        return objects
    }
}
