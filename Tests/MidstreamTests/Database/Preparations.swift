import SQLText
import SQLiteConnection
import Testing

@testable import Midstream

/// Prepares statements natively and as Midstream prepares them while tables move, and compares the two. Runs none.
struct Preparations {
    /// How many statements were prepared on both sides.
    private(set) var count = 0
    /// How many of them cannot be prepared.
    private(set) var mistakes = 0
    /// How many are redirected.
    private(set) var redirected = 0
    /// How many touch no moving table.
    private(set) var untouched = 0
    /// How many need tables drained first, and are native then.
    private(set) var drained = 0
    private(set) var problems: [String] = []

    /// What SQLite makes of a statement.
    private struct Native {
        var outcome = Outcome()
        var parameterCount = 0
        /// The tables that the statement would read or write, in lower case.
        var tables: Set<String> = []
    }

    /// Compares all statements of a text, and the same statements in other spellings.
    mutating func compare(_ sql: String, _ access: DatabaseAccess, _ native: Connection) throws {
        for outline in SQLScript(sql) where outline.kind != .empty {
            try compare(outline, in: sql, access, native)
            for text in Spelling.others(of: outline, in: sql) {
                try compare(SQLScript(text).outline(), in: text, access, native, isOther: true)
            }
        }
    }

    /// - Parameter isOther: Whether the statement is not spelt as people spell it.
    private mutating func compare(
        _ outline: StatementOutline,
        in text: String,
        _ access: DatabaseAccess,
        _ native: Connection,
        isOther: Bool = false
    ) throws {
        count += 1
        let sql = outline.text(outline.range)
        // A view of a moving table counts as moving.
        let moving = Set(access.overlay.byName.keys).union(access.overlay.twins.map(SQLIdentifier.lowercased))
        let theirs = prepare(sql, native)
        let isEnforced: Int64? = try access.connection.fetchValue("PRAGMA foreign_keys")
        let route = try Router(overlay: access.overlay, enforcesForeignKeys: isEnforced == 1).route(outline, in: text)
        if theirs.outcome.failure != nil { mistakes += 1 }
        if try isUntouched(outline, theirs, moving, access.overlay) {
            untouched += 1
            if !route.sql.utf8.elementsEqual(sql.utf8) {
                note("changed although it touches no moving table", sql, route)
            }
            if !route.drained.isEmpty { note("drains although it touches no moving table", sql, route) }
        } else if !route.sql.utf8.elementsEqual(sql.utf8) {
            redirected += 1
        }
        guard route.drained.isEmpty else {
            drained += 1
            return
        }
        var own = Outcome()
        do {
            let prepared = try access.prepare(.outlined(outline, in: text))
            own.columns = prepared.statement.columnNames.names
            // SQLite promises no name for an expression without AS; the name happens to be the expression's text.
            if isOther, own.columns.count == theirs.outcome.columns.count { own.columns = theirs.outcome.columns }
            // If another statement finds the keys, only that one has the parameters of LIMIT.
            let isWhole = prepared.keys == nil && theirs.outcome.failure == nil
            if isWhole, prepared.statement.parameterCount != theirs.parameterCount {
                note("natively \(theirs.parameterCount) parameters", sql, route)
            }
        } catch {
            own.note(error)
            if let error = error as? SQLiteError, error.sql != sql {
                note("the error has \(error.sql ?? "no")", sql, route)
            }
        }
        if let difference = own.difference(from: theirs.outcome, order: .none, isLoose: false) {
            note(difference, sql, route)
        }
    }

    private func prepare(_ sql: String, _ native: Connection) -> Native {
        final class Tables { var names: Set<String> = [] }
        var result = Native()
        let tables = Tables()
        native.setAuthorizer { event in
            if [.read, .insert, .update, .delete].contains(event.action), let name = event.first {
                tables.names.insert(SQLIdentifier.lowercased(name))
            }
            return .allow
        }
        defer { native.setAuthorizer(nil) }
        do {
            let statement = try native.prepare(sql)
            result.outcome.columns = statement.columnNames.names
            result.parameterCount = statement.parameterCount
        } catch {
            result.outcome.note(error)
        }
        result.tables = tables.names
        return result
    }

    /// Whether the statement certainly concerns no moving table. The tables that SQLite would access tell it, or all
    /// names in the statement.
    private func isUntouched(
        _ outline: StatementOutline,
        _ native: Native,
        _ moving: Set<String>,
        _ overlay: Overlay
    ) throws -> Bool {
        // Docs/COMPAT.md says how Midstream changes statements on all tables, and statements that describe a table by
        // its name.
        let names = outline.tableReferences.filter { !outline.isHiddenByCommonTable($0) }.map {
            SQLIdentifier.lowercased($0.name.name)
        }
        if names.contains(where: { $0.hasPrefix("pragma_") }) { return false }
        // SQLite does not report the rows that foreign keys look for.
        if let target = outline.target, !overlay.tablesTied(to: target.name).isEmpty { return false }
        switch outline.kind {
        case .select, .insert, .update, .delete:
            // SQLite does not access a common table that nothing reads.
            return native.outcome.failure == nil && native.tables.isDisjoint(with: moving)
                && moving.isDisjoint(with: names)
        case .analyze, .reindex, .vacuum, .pragma: return false
        default:
            // DROP INDEX names no table.
            if let target = outline.target, try isIndexed(target.name, overlay, moving) { return false }
            // A name that only the source has must not be found.
            return try !outline.mentions(moving)
                && overlay.strayTable(among: (outline.target?.name).map { [$0] } ?? []) == nil
        }
    }

    /// Whether the name is that of an index of a moving table.
    private func isIndexed(_ name: String, _ overlay: Overlay, _ moving: Set<String>) throws -> Bool {
        let table: String? = try overlay.connection.fetchValue(
            "SELECT tbl_name FROM main.sqlite_master WHERE type = 'index' AND name = ? COLLATE NOCASE",
            [name]
        )
        return table.map { moving.contains(SQLIdentifier.lowercased($0)) } ?? false
    }

    private mutating func note(_ problem: String, _ sql: String, _ route: Route) {
        problems.append("\(problem)\n  statement: \(sql)\n  given to SQLite: \(route.sql)")
    }

    /// Reports the problems, and says what was compared.
    func report(_ what: String) {
        for problem in problems.prefix(10) { Issue.record("\(what): \(problem)") }
        if problems.count > 10 { Issue.record("\(what): and \(problems.count - 10) more") }
        print(
            "preparations: \(what): \(count) statements, \(mistakes) that SQLite does not take, \(redirected) redirected, "
                + "\(untouched) of other tables, \(drained) drained"
        )
    }
}
