internal import SQLiteConnection

/// Watches what statements being prepared would do to moving tables past the overlay.
///
/// An access to a moving table's own rows is right when a redirected write of that very table makes it. Any other, by a
/// trigger or view of the application or by a construct that the router does not know, would see the target's part
/// alone: then the table is drained, not answered wrongly.
final class AccessWatch {
    /// The moving tables' names as SQLite spells them, and their ids.
    var moving: [String: Int64] = [:]
    /// The table that the statement's redirected write goes to.
    var redirected: Int64?
    /// The tables that were accessed otherwise.
    private(set) var violated: Set<Int64> = []
    /// Whether a statement was prepared anew, since the schema had changed.
    private(set) var hasPreparedAnew = false
    private var isPreparing = false
    /// Whether a statement of the application's begins to run, which is when SQLite may prepare it anew.
    private var isBeginning = false

    /// Whether what is being prepared is a statement of the application's.
    var isActive: Bool { isPreparing || isBeginning }

    /// Watches one statement being prepared.
    ///
    /// - Returns: The tables that it would access past the overlay.
    func preparing<Result>(redirected: Int64?, _ body: () throws -> Result) rethrows -> (Result, violated: Set<Int64>) {
        violated.removeAll()
        self.redirected = redirected
        isPreparing = true
        defer { isPreparing = false }
        let result = try body()
        return (result, violated)
    }

    /// Watches one statement beginning to run, which SQLite may prepare anew.
    func beginning<Result>(redirected: Int64?, _ body: () throws -> Result) rethrows -> Result {
        violated.removeAll()
        hasPreparedAnew = false
        self.redirected = redirected
        isBeginning = true
        defer { isBeginning = false }
        return try body()
    }

    /// The statement has begun: what is prepared anew from here on are statements of the engine's own.
    func noteBegun() {
        isBeginning = false
    }

    func decide(_ event: AuthorizerEvent) -> AuthorizerDecision {
        if !isPreparing { hasPreparedAnew = true }
        switch event.action {
        case .read, .insert, .update, .delete: break
        default: return .allow
        }
        guard event.schema == "main", let name = event.first, let id = moving[name] else { return .allow }
        if let accessor = event.accessor {
            if accessor.hasPrefix(StateStore.prefix) { return .allow }
        } else if id == redirected {
            return .allow
        }
        violated.insert(id)
        // A statement that is already being run must not get any further.
        return isPreparing ? .allow : .deny
    }
}
