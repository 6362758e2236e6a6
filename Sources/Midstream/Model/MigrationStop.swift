internal import SQLiteConnection

/// Why the rows of a table do not move on: the error that a step has met at it.
///
///     for table in try database.readMigrationProgress().tables {
///         if let stop = table.stop { print("\(table.name) is stopped: \(stop.message)") }
///     }
///
/// It is stored in the target's file, so that every process that reads the progress is told. It is forgotten by the first step that
/// gets on with the table.
public struct MigrationStop: Sendable, Hashable {
    /// The kind of the error.
    public var code: MigrationError.Code
    /// What has happened, why, and what to do. SQLite's own message is at the end, in parentheses.
    public var message: String
    /// The row of the source, or the rows, where the error is about some: `rowid 5`, `key ('a', 3)`, `rowids 17 to 20`.
    public var row: String?
}

extension MigrationStop {
    init(_ error: MigrationError) {
        code = error.code
        message =
            error.message + (error.cause.map { error.message.contains($0.message) ? "" : " (\($0.message))" } ?? "")
        row = error.unreadableKeys?.description ?? error.row
    }
}
