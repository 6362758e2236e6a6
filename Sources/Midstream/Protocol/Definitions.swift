internal import SQLiteConnection

/// How a table that is about to move and its source were created, with their indexes: whether a program without Midstream has
/// changed one since it was checked that the rows can move.
struct Definitions: Hashable {
    /// `nil` where there is no such table.
    var target: String?
    var source: String?

    init(target: String?, source: String?) {
        self.target = target
        self.source = source
    }

    /// Reads them as they are.
    init(of target: String, from source: String, _ migration: MigrationRecord, _ connection: Connection) throws {
        self.target = try SchemaReader(connection: connection, schema: "main").definition(of: target)
        self.source = try SchemaReader(connection: connection, schema: migration.schema).definition(of: source)
    }
}
