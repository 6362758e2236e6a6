internal import SQLText
internal import SQLiteConnection

/// The rowid after which AUTOINCREMENT goes on. SQLite keeps it for each table in `sqlite_sequence`.
enum AutoIncrement {
    /// The stored number; `nil` if there is none.
    static func sequence(of table: String, in schema: String, _ connection: Connection) throws -> Int64? {
        let schema = SQLIdentifier.quoted(schema)
        guard try StateStore(connection: connection, schema: schema).exists("sqlite_sequence") else { return nil }
        return try connection.fetchValue(
            "SELECT seq FROM \(schema).sqlite_sequence WHERE name = ? COLLATE NOCASE",
            [table]
        )
    }

    /// The largest rowid of a move's source. The target is to choose only larger ones.
    ///
    /// Rows that the condition leaves out count too, since this saves looking at them; unless no rowid would be left then.
    static func largest(of sql: MoveSQL, _ connection: Connection) throws -> Int64? {
        let largest: Int64? = try connection.fetchValue(sql.largestSourceKey)
        guard largest == .max, !sql.condition.isEmpty else { return largest }
        return try connection.fetchValue(sql.largestBelongingKey)
    }

    /// Raises the stored number to at least `sequence`. Older versions of SQLite store NULL for an empty table.
    static func raise(of table: String, in schema: String, to sequence: Int64, _ connection: Connection) throws {
        let sequences = SQLIdentifier.quoted(schema) + ".sqlite_sequence"
        try connection.execute(
            "UPDATE \(sequences) SET seq = max(coalesce(seq, 0), ?1) WHERE name = ?2",
            [sequence, table]
        )
        if connection.changes == 0 {
            try connection.execute("INSERT INTO \(sequences)(name, seq) VALUES (?1, ?2)", [table, sequence])
        }
    }
}
