internal import SQLiteC

// A connection that other code has opened.

/// Tells connections apart for as long as they are open.
public struct ConnectionIdentity: Hashable, Sendable {
    private let address: UInt

    /// The identity of a `sqlite3*`.
    public init(_ handle: OpaquePointer) {
        address = UInt(bitPattern: handle)
    }
}

/// Calls a closure when SQLite lets go of this object, and keeps alive until then what the closure keeps.
private final class Farewell {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
}

extension Connection {
    /// Uses a connection that other code has opened and goes on using.
    ///
    /// Midstream does not close the borrowed connection, and changes none of its settings. Statements that are prepared
    /// here must be let go before the owner closes the connection, or `sqlite3_close` fails with SQLITE_BUSY;
    /// ``close()`` lets go of those that are cached.
    ///
    /// - Parameter handle: A `sqlite3*`. It must stay open for as long as this object is used: see ``whenClosed(_:)``.
    public convenience init(borrowing handle: OpaquePointer) {
        self.init(borrowed: handle)
    }

    /// The identity that tells this connection apart from others.
    public var identity: ConnectionIdentity { ConnectionIdentity(db) }

    private static let farewell = "midstream_farewell"

    /// Has `body` called when the connection is closed by whomever. Before that, this object lets go of the connection,
    /// and after it, `body` is let go.
    ///
    /// SQLite has no hook for the end of a connection, but it calls the destructors of the connection's functions. Only
    /// one `body` can be set at a time.
    ///
    /// Source: <https://www.sqlite.org/c3ref/create_function.html>.
    public func whenClosed(_ body: @escaping () -> Void) throws(SQLiteError) {
        try checkOpen()
        let farewell = Farewell { [self] in
            release()
            body()
        }
        let code = sqlite3_create_function_v2(
            db,
            Self.farewell,
            0,
            SQLITE_UTF8,
            Unmanaged.passRetained(farewell).toOpaque(),
            { context, _, _ in sqlite3_result_null(context) },
            nil,
            nil,
            { data in
                guard let data else { return }
                Unmanaged<Farewell>.fromOpaque(data).takeRetainedValue().body()
            }
        )
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Calls the closure that was given to ``whenClosed(_:)`` now: other code goes on using the connection without this
    /// object.
    public func leave() throws(SQLiteError) {
        try removeFunction(Self.farewell, argumentCount: 0)
    }

    /// Removes a function of the connection. If the function replaced a built-in one, the built-in one stays hidden for
    /// ever.
    public func removeFunction(_ name: String, argumentCount: Int) throws(SQLiteError) {
        try checkOpen()
        let count = Int32(clamping: argumentCount)
        let code = sqlite3_create_function_v2(db, name, count, SQLITE_UTF8, nil, nil, nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Makes `changes()` and `total_changes()` SQLite's own again, after they were replaced.
    public func restoreChangeCounters() throws(SQLiteError) {
        try checkOpen()
        let code = midstream_restore_change_counters(db)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Whether a file name that begins with `file:` is a URI on this connection. Finding that out opens and creates no
    /// file.
    var acceptsURIs: Bool {
        // As a plain path, this name is in a folder that cannot exist; as a URI, it names a VFS that does not exist.
        guard
            let statement = try? prepare("ATTACH 'file:/midstream/none?vfs=midstream_none' AS midstream_none")
        else { return false }
        do throws(SQLiteError) {
            try statement.run()
            try? execute("DETACH midstream_none")
            return false
        } catch {
            return error.message.hasPrefix("no such vfs")
        }
    }

    /// Runs `body` while no other thread runs a function of SQLite on the connection. A connection that SQLite does not serialize must not
    /// be used by two threads anyway.
    package func exclusively<Result>(_ body: () throws -> Result) rethrows -> Result {
        let mutex = isClosed ? nil : sqlite3_db_mutex(db)
        sqlite3_mutex_enter(mutex)
        defer { sqlite3_mutex_leave(mutex) }
        return try body()
    }

    /// Whether a setting is on.
    public func isOn(_ setting: Setting) -> Bool {
        var value: Int32 = 0
        return !isClosed && midstream_db_config(db, setting.rawValue, -1, &value) == SQLITE_OK && value != 0
    }
}
