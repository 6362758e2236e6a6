internal import Midstream
internal import SQLiteC
internal import SQLiteConnection

/// A connection that has loaded the extension: the SQL functions that it gets. SQLite keeps the functions, and the functions this object.
final class ExtendedConnection {
    private let handle: OpaquePointer
    private let overlay: MigrationOverlay
    /// Makes the steps. It opens the file when it is first needed.
    private var database: Database?

    init(_ handle: OpaquePointer) throws {
        self.handle = handle
        overlay = try MigrationOverlay.install(whileLoadingOn: handle)
    }

    func defineFunctions() throws {
        let connection = Connection(borrowing: handle)
        // The extension was loaded before.
        if (try? connection.prepare("SELECT midstream_refresh()")) != nil { return }
        try connection.createFunction("midstream_refresh", argumentCount: 0, flags: .directOnly) { [self] _, result in
            try overlay.refresh()
            result.set(Int64(overlay.movingTables.count))
        }
        try connection.createFunction("midstream_status", argumentCount: 0, flags: .directOnly) { [self] _, result in
            result.set(.text(Self.json(try opened().readMigrationProgress())))
        }
        try connection.createFunction("midstream_step", argumentCount: 1, flags: .directOnly) { [self] values, result in
            let milliseconds = values[0].int64
            guard values[0].storageClass == .integer, milliseconds > 0 else {
                throw SQLiteError(
                    code: .misuse,
                    message: "midstream_step needs a number of milliseconds, such as midstream_step(100)"
                )
            }
            result.set(Int64(try step(for: .milliseconds(milliseconds)) ? 1 : 0))
        }
    }

    /// Makes steps until the time is over, or nothing can be done at present.
    ///
    /// - Returns: Whether nothing is left to do.
    private func step(for time: Duration) throws -> Bool {
        let database = try opened()
        let clock = ContinuousClock()
        let end = clock.now + time
        while true {
            let progress = try database.stepMigration(budget: max(.milliseconds(1), clock.now.duration(to: end)))
            if progress.isFinished || progress.outcome != .worked || clock.now >= end { return progress.isFinished }
        }
    }

    private func opened() throws -> Database {
        if let database { return database }
        guard let name = sqlite3_db_filename(handle, "main"), name.pointee != 0 else {
            throw SQLiteError(
                code: .misuse,
                message: "the connection's main database has no file, and a migration needs one"
            )
        }
        let opened = try Database(path: String(cString: name))
        database = opened
        return opened
    }

    // MARK: JSON

    private static func json(_ progress: MigrationProgress) -> String {
        let tables = progress.tables.map { table in
            let members = [
                ("table", quoted(table.name)), ("source", table.sourcePath.map(quoted) ?? "null"),
                ("phase", quoted("\(table.phase)")), ("moved", "\(table.movedRows)"),
                ("total", table.totalRows.map(String.init) ?? "null"),
                ("stopped", table.stop.map { quoted($0.message) } ?? "null"),
            ]
            return "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
        }
        return "[" + tables.joined(separator: ",") + "]"
    }

    private static func quoted(_ text: String) -> String {
        let characters = text.unicodeScalars.map { scalar in
            switch scalar {
            case "\"", "\\": "\\\(scalar)"
            case "\u{0}"..."\u{1F}":
                "\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            default: String(scalar)
            }
        }
        return "\"" + characters.joined() + "\""
    }
}
