import Midstream
import SQLiteC
import SQLiteConnection

/// A connection that is opened, used and closed by plain C calls, in the way of some library.
final class ForeignConnection {
    enum Library: CaseIterable {
        /// `sqlite3_open`, and nothing else.
        case plain
        /// As GRDB opens a writing connection: extended codes, no strings in double quotes, foreign keys, an authorizer
        /// that stays, and hooks.
        case grdb
        /// As SQLite.swift opens a connection: serialized, with a busy handler.
        case sqliteSwift
        /// As a pool opens its readers.
        case readOnly
    }

    let handle: OpaquePointer
    /// For the tests' own statements: a thin layer over `sqlite3_prepare`, `step` and `column`.
    let wrapped: Connection
    /// Whether the statement being prepared drops something.
    private let isDropping = UnsafeMutablePointer<Bool>.allocate(capacity: 1)

    deinit {
        isDropping.deallocate()
    }

    init(_ path: String, as library: Library = .plain) throws {
        var handle: OpaquePointer?
        let code =
            switch library {
            case .plain: sqlite3_open(path, &handle)
            case .grdb:
                sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | Self.extendedCodes, nil)
            case .sqliteSwift:
                sqlite3_open_v2(
                    path,
                    &handle,
                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_URI,
                    nil
                )
            case .readOnly: sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nil)
            }
        guard code == SQLITE_OK, let handle else { throw SQLiteError(code: ResultCode(rawValue: code)) }
        self.handle = handle
        wrapped = Connection(borrowing: handle)
        switch library {
        case .plain: break
        case .grdb: try setUpAsGRDB()
        case .sqliteSwift:
            sqlite3_busy_handler(handle, { _, tries in tries < 60_000 ? sqlite3_sleep(1) * 0 + 1 : 0 }, nil)
        case .readOnly: sqlite3_busy_timeout(handle, 5000)
        }
    }

    /// SQLITE_OPEN_EXRESCODE, which SQLite has since 3.37.
    private static var extendedCodes: Int32 { sqlite3_libversion_number() >= 3_037_000 ? 0x0200_0000 : 0 }

    private func setUpAsGRDB() throws {
        sqlite3_busy_timeout(handle, 5000)
        if sqlite3_libversion_number() >= 3_029_000 {
            _ = midstream_db_config(handle, 1013, 0, nil)
            _ = midstream_db_config(handle, 1014, 0, nil)
        }
        try execute("PRAGMA foreign_keys = ON")
        registerAuthorizer()
        sqlite3_update_hook(handle, { _, _, _, _, _ in }, nil)
        sqlite3_commit_hook(handle, { _ in 0 }, nil)
        sqlite3_rollback_hook(handle, { _ in }, nil)
        sqlite3_extended_result_codes(handle, 1)
        try execute("PRAGMA journal_mode = WAL")
        try execute("PRAGMA synchronous = NORMAL")
    }

    /// Sets an authorizer that keeps DELETE from being a truncation. Setting an authorizer again expires all
    /// statements.
    func registerAuthorizer() {
        isDropping.initialize(to: false)
        sqlite3_set_authorizer(
            handle,
            { context, action, first, _, _, _ in
                let isDropping = context?.assumingMemoryBound(to: Bool.self)
                switch action {
                case SQLITE_DROP_TABLE, SQLITE_DROP_TEMP_TABLE, SQLITE_DROP_VTABLE, SQLITE_DROP_TEMP_VIEW:
                    isDropping?.pointee = true
                    return SQLITE_OK
                case SQLITE_SELECT:
                    isDropping?.pointee = false
                    return SQLITE_OK
                case SQLITE_DELETE:
                    let isSchema = first.map { String(cString: $0).hasPrefix("sqlite_") } ?? true
                    return isSchema || isDropping?.pointee == true ? SQLITE_OK : SQLITE_IGNORE
                default: return SQLITE_OK
                }
            },
            isDropping
        )
    }

    @discardableResult
    func install() throws -> MigrationOverlay {
        try MigrationOverlay.install(on: handle)
    }

    func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else {
            throw SQLiteError(
                code: ResultCode(rawValue: sqlite3_extended_errcode(handle)),
                message: String(cString: sqlite3_errmsg(handle))
            )
        }
    }

    func rows(_ sql: String, _ arguments: Arguments = Arguments()) throws -> [String] {
        let statement = try wrapped.prepare(sql)
        try statement.bind(arguments)
        var rows: [Row] = []
        while try statement.step() { rows.append(Row(copying: statement)) }
        return texts(rows)
    }

    /// Closes the connection, and returns the code of `sqlite3_close`.
    func close() -> Int32 {
        wrapped.close()
        let code = sqlite3_close(handle)
        var statement = code == SQLITE_OK ? nil : sqlite3_next_stmt(handle, nil)
        while let open = statement {
            print("still open: \(sqlite3_sql(open).map { String(cString: $0) } ?? "")")
            statement = sqlite3_next_stmt(handle, open)
        }
        return code
    }
}
