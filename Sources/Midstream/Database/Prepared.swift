internal import SQLText
internal import SQLiteConnection

/// A statement of the application, together with what must be done before it.
final class Prepared {
    /// The statement's own text, without the text around it.
    let text: String
    let route: Route
    let statement: Statement
    /// The query for the keys of the rows that the statement affects.
    let keys: Statement?
    /// The parameters of the application's own text; empty unless the key query is run beside the statement.
    let parameters: [Parameter]
    /// Whether no transaction was open when the statement was last run.
    var beginsTransaction = false
    /// Whether another statement of the connection was writing outside transactions when this one was last run.
    var takesInWrites = false
    /// Whether the statement is known not to be prepared for a newer schema than the overlay was made for.
    var isOfOverlay = false

    init(text: String, route: Route, statement: Statement, keys: Statement?, parameters: [Parameter]) {
        self.text = text
        self.route = route
        self.statement = statement
        self.keys = keys
        self.parameters = parameters
    }

    /// Binds the values to the statement and to the key query, by the numbers that SQLite gives to the parameters of
    /// the application's own text. Neither of the two need have all parameters.
    ///
    /// - Throws: `SQLiteError` if the values do not fit the parameters.
    func bind(_ arguments: Arguments) throws {
        guard let keys else { return try statement.bind(arguments) }
        let numbered = try numbered(arguments)
        for part in [statement, keys] {
            part.clearBindings()
            let count = part.parameterCount
            for (index, value) in numbered where index <= count { try part.bind(value, at: index) }
        }
    }

    private func numbered(_ arguments: Arguments) throws -> [(index: Int, value: SQLiteValue)] {
        let count = parameters.map(\.index).max() ?? 0
        guard arguments.positional.count <= count else {
            throw SQLiteError.tooManyValues(arguments, parameterCount: count, sql: text)
        }
        var numbered = arguments.positional.enumerated().map { (index: $0 + 1, value: $1) }
        for (name, value) in arguments.named {
            let spellings = [name, ":" + name, "@" + name, "$" + name]
            let index = spellings.lazy.compactMap { spelling in
                self.parameters.first { $0.name == spelling }?.index
            }.first
            guard let index else { throw SQLiteError.noParameter(named: name, sql: text) }
            numbered.append((index, value))
        }
        let given = Set(numbered.map(\.index))
        let missing = parameters.filter { !given.contains($0.index) }
        if missing.isEmpty { return numbered }
        let names = Dictionary(missing.map { ($0.index, $0.name ?? "?\($0.index)") }) { first, _ in first }
        throw SQLiteError.noValues(for: names.sorted { $0.key < $1.key }.map(\.value), sql: text)
    }

    /// Whether the prepared statement is worth keeping for the next run.
    var isKept: Bool {
        (route.role == .query || route.role == .write) && route.drained.isEmpty && !route.isOfMoment
    }
}

/// One statement of a text that the application gave.
enum Piece {
    /// A whole text that is in the cache of prepared statements.
    case cached(String)
    /// The part of the text that the outline describes.
    case outlined(StatementOutline, in: String)

    /// The whole text.
    var text: String {
        switch self {
        case .cached(let text), .outlined(_, in: let text): text
        }
    }

    /// The key under which the prepared statement is kept: the whole text if it is one statement, otherwise the
    /// statement's part of it.
    var key: String {
        switch self {
        case .cached(let text): text
        case .outlined(let outline, in: let text):
            outline.endOffset >= text.utf8.count && outline.range.lowerBound == 0 ? text : outline.text(outline.range)
        }
    }

    var outline: StatementOutline {
        switch self {
        case .cached(let text): SQLScript(text).outline()
        case .outlined(let outline, in: _): outline
        }
    }

    /// Whether the statement detaches a file. No DETACH is in the cache.
    var isDetach: Bool {
        if case .outlined(let outline, in: _) = self { outline.kind == .detach } else { false }
    }

    var role: Route.Role { Router.role(of: outline) }
}

/// The prepared statements of one connection, by the application's text. They are valid for as long as the overlay
/// stays as it is.
struct PreparedCache {
    private var entries: [ExactString: Prepared] = [:]
    private var generation = 0
    private static let capacity = 200
    /// The entry that was found last. Each run looks for its statement twice, and loops run one statement again and
    /// again.
    private var last: (text: String, prepared: Prepared)?

    mutating func contains(_ text: String, _ overlay: Overlay) -> Bool {
        find(text, overlay) != nil
    }

    mutating func statement(_ text: String, _ overlay: Overlay) -> Prepared? {
        guard let prepared = find(text, overlay), !prepared.statement.isBusy else { return nil }
        return prepared
    }

    private mutating func find(_ text: String, _ overlay: Overlay) -> Prepared? {
        guard generation == overlay.generation else { return nil }
        if let last, last.text.hasSameBytes(as: text) { return last.prepared }
        guard let prepared = entries[ExactString(string: text)] else { return nil }
        last = (text, prepared)
        return prepared
    }

    mutating func removeAll() {
        last = nil
        entries.removeAll()
    }

    /// Whether the cache must be emptied before it keeps another statement.
    func isFull(_ overlay: Overlay) -> Bool {
        generation != overlay.generation || entries.count >= Self.capacity
    }

    mutating func keep(_ prepared: Prepared, _ text: String, _ overlay: Overlay) {
        last = nil
        generation = overlay.generation
        entries[ExactString(string: text)] = prepared
    }
}

extension SQLiteError {
    /// The error as SQLite would word it for the application's own text, if the prepared text names the schema in
    /// another way.
    func inTheTermsOf(_ outline: StatementOutline) -> SQLiteError {
        var error = self
        if outline.target?.schema == nil, message.hasPrefix("table main.") {
            error.message = "table " + message.dropFirst(11)
        }
        if let target = outline.target, target.schema == nil, message.hasPrefix("no such "),
            message.hasSuffix(": main." + target.name), outline.kind != .insert, outline.kind != .update,
            outline.kind != .delete
        {
            error.message = message.replacing(": main." + target.name, with: ": " + target.name)
        }
        let table = "no such table: main."
        if outline.kind == .pragma, outline.target?.schema == nil, message.hasPrefix(table) {
            error.message = "no such table: " + message.dropFirst(table.count)
        }
        let column = "no such column: temp."
        if message.hasPrefix(column) {
            let written = outline.qualifiedReferences.first { $0.schema != "temp" }?.schema ?? "temp"
            error.message = "no such column: \(written)." + message.dropFirst(column.count)
        }
        error.sql = outline.text(outline.range)
        return error
    }

    /// The error with the application's own text in place of the text that was run.
    func naming(_ text: String) -> SQLiteError {
        var error = self
        if error.sql.map({ !$0.hasSameBytes(as: text) }) ?? true { error.offset = nil }
        error.sql = text
        return error
    }
}
