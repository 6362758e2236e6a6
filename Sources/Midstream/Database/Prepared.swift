internal import SQLText
internal import SQLiteConnection

/// A statement of the application with what must be done before it.
final class Prepared {
    /// The statement's own text, without what stands around it.
    let text: String
    let route: Route
    let statement: Statement
    /// Finds the keys of the rows that the statement means.
    let keys: Statement?
    /// Whether no transaction was open when it was last run.
    var beginsTransaction = false

    init(text: String, route: Route, statement: Statement, keys: Statement?) {
        self.text = text
        self.route = route
        self.statement = statement
        self.keys = keys
    }

    /// Whether it is worth keeping for the next time.
    var isKept: Bool {
        (route.role == .query || route.role == .write) && route.drained.isEmpty
    }
}

/// One statement of a text that the application gave.
enum Piece {
    /// The text has been prepared before, whole.
    case cached(String)
    /// The part of the text that the outline describes.
    case outlined(StatementOutline, in: String)

    /// The whole text.
    var text: String {
        switch self {
        case .cached(let text), .outlined(_, in: let text): text
        }
    }

    /// What the prepared statement is kept under: a text that is one statement under all of it.
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

    func role(_ overlay: Overlay) -> Route.Role { Router.role(of: outline) }
}

/// The statements prepared on one connection, by the application's text, for as long as the overlay stays as it is.
struct PreparedCache {
    private var entries: [ExactString: Prepared] = [:]
    private var generation = 0
    private static let capacity = 200

    func contains(_ text: String, _ overlay: Overlay) -> Bool {
        generation == overlay.generation && entries[ExactString(string: text)] != nil
    }

    func statement(_ text: String, _ overlay: Overlay) -> Prepared? {
        guard generation == overlay.generation, let prepared = entries[ExactString(string: text)],
            !prepared.statement.isBusy
        else { return nil }
        return prepared
    }

    mutating func keep(_ prepared: Prepared, _ text: String, _ overlay: Overlay) {
        if generation != overlay.generation || entries.count >= Self.capacity {
            entries.removeAll()
            generation = overlay.generation
        }
        entries[ExactString(string: text)] = prepared
    }
}

extension SQLiteError {
    /// The same error with the application's own text in the place of the one that was run.
    func naming(_ text: String) -> SQLiteError {
        var error = self
        error.sql = text
        return error
    }
}
