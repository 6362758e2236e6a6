internal import SQLText
internal import SQLiteConnection

/// The views of `main`, of `temp` and of the files that the application has attached. If a statement names a view, the view's
/// text says what the statement does besides what the statement's own text says.
struct ViewTexts {
    /// The moment at which the texts were read.
    private var moment: Moment?
    /// The texts by the views' names in lower case. A view that has a twin has both texts here.
    private var texts: [String: [ExactString]] = [:]
    private var outlines: [String: [StatementOutline]] = [:]
    /// The names of the views of `main`, in lower case.
    private var namesOfMain: Set<String> = []

    /// Versions of schemas do not suffice to tell moments apart: a rollback takes a version back, and another change may get it.
    private struct Moment: Equatable {
        var main: Int64
        var temporary: Int64
        var definitions: Int
        var rollbacks: Int
    }

    /// Reads the texts again if a schema has changed.
    ///
    /// - Parameters:
    ///   - version: The version of the schema of `main`; `nil` if the connection itself has changed that schema.
    ///   - attached: The schemas of the files that the application has attached.
    mutating func update(_ statements: InternalStatements, _ version: Int64?, attached: [String]) throws {
        let pragma = try statements.statement("PRAGMA temp.schema_version")
        let temporary = try pragma.step() ? pragma.int64(at: 0) : 0
        pragma.reset()
        let now = version.map {
            Moment(
                main: $0,
                temporary: temporary,
                definitions: statements.definitions,
                rollbacks: statements.rollbacks
            )
        }
        // Nothing reports what other code rolls back on its connection.
        if let now, now == moment, !statements.isBorrowed, attached.isEmpty { return }
        let masters =
            ["main.sqlite_master", "sqlite_temp_master"]
            + attached.map { SQLIdentifier.quoted($0) + ".sqlite_master" }
        let query = try statements.statement(
            masters.enumerated().map { "SELECT name, sql, \($0) FROM \($1) WHERE type = 'view'" }.joined(
                separator: " UNION ALL "
            )
        )
        defer { query.reset() }
        var found: [String: [ExactString]] = [:]
        namesOfMain.removeAll()
        while try query.step() {
            guard case .text(let name) = query.value(at: 0), case .text(let sql) = query.value(at: 1) else { continue }
            found[SQLIdentifier.lowercased(name), default: []].append(ExactString(string: sql))
            if query.int64(at: 2) == 0 { namesOfMain.insert(SQLIdentifier.lowercased(name)) }
        }
        if found != texts { outlines.removeAll() }
        (texts, moment) = (found, now)
    }

    /// The views that a statement names, and the views that these name.
    ///
    /// - Complexity: O(n) in the views' texts, each read once.
    mutating func named(by statement: StatementOutline) -> [StatementOutline] {
        if texts.isEmpty { return [] }
        // A text that cannot be read completely may name any view.
        var names = statement.isComplete ? statement.namesOfTables : Set(texts.keys)
        var unread = Array(names)
        var found: [StatementOutline] = []
        while let name = unread.popLast() {
            for view in outlinesOf(name) {
                found.append(view)
                for next in view.isComplete ? view.namesOfTables : Set(texts.keys) where names.insert(next).inserted {
                    unread.append(next)
                }
            }
        }
        return found
    }

    func isOfMain(_ name: String) -> Bool { namesOfMain.contains(SQLIdentifier.lowercased(name)) }

    private mutating func outlinesOf(_ name: String) -> [StatementOutline] {
        if let known = outlines[name] { return known }
        let made = texts[name, default: []].map { SQLScript($0.string).outline() }
        if !made.isEmpty { outlines[name] = made }
        return made
    }
}

extension StatementOutline {
    /// The names of tables and views, in lower case, at any depth.
    fileprivate var namesOfTables: Set<String> {
        var names = Set(tableReferences.map { SQLIdentifier.lowercased($0.name.name) })
        if let target { names.insert(SQLIdentifier.lowercased(target.name)) }
        return names
    }
}
