internal import SQLiteConnection

/// Why a table's rows do not move on: the error that a step met at the table.
///
///     for table in try database.readMigrationProgress().tables {
///         if let stop = table.stop { print("\(table.name) is stopped: \(stop.message)") }
///     }
///
/// The target's file stores the stop, so that every process that reads the progress sees it. The first step that makes progress
/// with the table removes the stop.
public struct MigrationStop: Sendable, Hashable {
    /// The kind of the error.
    public var code: MigrationError.Code
    /// What has happened, why, and what to do. SQLite's own message is at the end, in parentheses.
    public var message: String
    /// The row or rows of the source that the error is about, if any: `rowid 5`, `key ('a', 3)`, `rowids 17 to 20`.
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
