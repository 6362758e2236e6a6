internal import SQLiteC

/// What SQLite does with an access that it has asked the authorizer about.
public enum AuthorizerDecision: Int32, Sendable {
    /// The access goes on.
    case allow = 0
    /// The statement does not compile.
    case deny = 1
    /// The access is left out: a column reads as NULL, or a trigger's program does nothing.
    case ignore = 2
}

/// One access that a statement being prepared would make.
///
/// Source: <https://www.sqlite.org/c3ref/set_authorizer.html>.
public struct AuthorizerEvent {
    /// The kind of access, one of SQLite's action codes.
    public let action: AuthorizerAction
    let pointers: (UnsafePointer<CChar>?, UnsafePointer<CChar>?, UnsafePointer<CChar>?, UnsafePointer<CChar>?)

    /// The first detail; for accesses to a table, the table.
    public var first: String? { pointers.0.map { String(cString: $0) } }
    /// The second detail; for accesses to a column, the column.
    public var second: String? { pointers.1.map { String(cString: $0) } }
    /// The schema.
    public var schema: String? { pointers.2.map { String(cString: $0) } }
    /// The innermost trigger or view that makes the access.
    public var accessor: String? { pointers.3.map { String(cString: $0) } }
    /// Whether a trigger or a view makes the access.
    public var hasAccessor: Bool { pointers.3 != nil }
}

/// The kind of an access.
public struct AuthorizerAction: RawRepresentable, Hashable, Sendable {
    /// SQLite's number.
    public let rawValue: Int32
    /// Wraps SQLite's number.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// A column is read.
    public static let read = AuthorizerAction(rawValue: SQLITE_READ)
    /// A row is inserted.
    public static let insert = AuthorizerAction(rawValue: SQLITE_INSERT)
    /// A column is updated.
    public static let update = AuthorizerAction(rawValue: SQLITE_UPDATE)
    /// A row is deleted.
    public static let delete = AuthorizerAction(rawValue: SQLITE_DELETE)
    /// A table is dropped.
    public static let dropTable = AuthorizerAction(rawValue: SQLITE_DROP_TABLE)
    /// A table is altered. Its name is the second detail, and its schema the first.
    public static let alterTable = AuthorizerAction(rawValue: SQLITE_ALTER_TABLE)
    /// A function is called. Its name is the second detail.
    public static let function = AuthorizerAction(rawValue: SQLITE_FUNCTION)
    /// A virtual table is dropped.
    public static let dropVirtualTable = AuthorizerAction(rawValue: SQLITE_DROP_VTABLE)
}

extension Connection {
    /// Has `authorizer` asked about every access of every statement that is prepared from now on, including those that
    /// SQLite prepares again.
    ///
    /// The authorizer must not use the connection. Setting an authorizer expires every prepared statement.
    public func setAuthorizer(_ authorizer: ((AuthorizerEvent) -> AuthorizerDecision)?) {
        guard !isClosed else { return }
        self.authorizer = authorizer
        guard authorizer != nil else {
            sqlite3_set_authorizer(db, nil, nil)
            return
        }
        sqlite3_set_authorizer(
            db,
            { context, action, first, second, schema, accessor in
                guard let context else { return SQLITE_DENY }
                return Unmanaged<Connection>.fromOpaque(context)._withUnsafeGuaranteedRef { connection in
                    guard let authorizer = connection.authorizer else { return SQLITE_OK }
                    let event = AuthorizerEvent(
                        action: AuthorizerAction(rawValue: action),
                        pointers: (first, second, schema, accessor)
                    )
                    return authorizer(event).rawValue
                }
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }
}
