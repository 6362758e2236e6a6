internal import SQLiteConnection

/// The CREATE texts of a table that is about to move, of its source, and of their indexes. They show whether a program without
/// Midstream has changed one of these since Midstream checked that the rows can move.
struct Definitions: Hashable {
    /// The text of the target's table; `nil` if there is no such table.
    var target: String?
    var source: String?

    init(target: String?, source: String?) {
        self.target = target
        self.source = source
    }

    /// Reads the present texts.
    init(of target: String, from source: String, _ migration: MigrationRecord, _ connection: Connection) throws {
        self.target = try SchemaReader(connection: connection, schema: "main").definition(of: target)
        self.source = try SchemaReader(connection: connection, schema: migration.schema).definition(of: source)
    }
}
