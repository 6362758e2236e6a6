internal import SQLiteC

// A connection that other code has opened.

/// Tells connections apart, for as long as they are open.
public struct ConnectionIdentity: Hashable, Sendable {
    private let address: UInt

    /// The identity of a `sqlite3*`.
    public init(_ handle: OpaquePointer) {
        address = UInt(bitPattern: handle)
    }
}

/// Calls a closure when SQLite lets go of it, and keeps what the closure keeps until then.
private final class Farewell {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
}

extension Connection {
    /// Uses a connection that other code has opened and goes on using.
    ///
    /// It is not closed, and no setting of it is changed. Statements that are prepared here must be let go before the
    /// owner closes it, or `sqlite3_close` fails with SQLITE_BUSY; ``close()`` lets go of those that are cached.
    ///
    /// - Parameter handle: A `sqlite3*`. It must stay open for as long as the connection is used: see ``whenClosed(_:)``.
    public convenience init(borrowing handle: OpaquePointer) {
        self.init(borrowed: handle)
    }

    /// Tells the connection apart from others.
    public var identity: ConnectionIdentity { ConnectionIdentity(db) }

    private static let farewell = "midstream_farewell"

    /// Has `body` called, and let go, when the connection is closed by whomever, after this one has let go of it.
    ///
    /// SQLite has no hook for that, but it calls the destructors of a connection's functions. One at a time can be set.
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

    /// Calls what was given to ``whenClosed(_:)`` now: other code goes on using the connection without this one.
    public func leave() throws(SQLiteError) {
        try removeFunction(Self.farewell, argumentCount: 0)
    }

    /// Removes a function of the connection. One that took the place of a built-in one hides that for ever.
    public func removeFunction(_ name: String, argumentCount: Int) throws(SQLiteError) {
        try checkOpen()
        let count = Int32(clamping: argumentCount)
        let code = sqlite3_create_function_v2(db, name, count, SQLITE_UTF8, nil, nil, nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Has `changes()` and `total_changes()` be what they are natively, after they were something else.
    public func restoreChangeCounters() throws(SQLiteError) {
        try checkOpen()
        let code = midstream_restore_change_counters(db)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Whether a file name that begins with `file:` is a URI on this connection. Nothing is opened or created to know.
    var acceptsURIs: Bool {
        // As a plain path, it is in a folder that cannot exist beside it; as a URI, it names a VFS that does not.
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

    /// Whether a setting is on.
    public func isOn(_ setting: Setting) -> Bool {
        var value: Int32 = 0
        return !isClosed && midstream_db_config(db, setting.rawValue, -1, &value) == SQLITE_OK && value != 0
    }
}
