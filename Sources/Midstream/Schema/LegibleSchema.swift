internal import SQLText
internal import SQLiteConnection

/// Checks that Swift's strings can represent a schema, before anything relies on that.
///
/// To Swift, a letter and an accent equal the accented letter, and bytes that are not UTF-8 become U+FFFD when they are read. To
/// SQLite, these are different names and different texts.
enum LegibleSchema {
    /// Checks that no two names look the same.
    ///
    /// - Parameters:
    ///   - names: Names that differ in their bytes.
    ///   - what: What the names are names of, in the plural, for the error.
    ///   - table: The table that the error is about.
    static func checkNames(_ names: [String], _ what: String, table: String? = nil) throws(MigrationError) {
        if names.allSatisfy({ $0.utf8.allSatisfy { $0 < 0x80 } }) { return }
        // Names are looked up as they are, or in lower case, by Swift's `==`.
        var seen: [String: String] = [:]
        for name in names {
            for key in Set([name, SQLIdentifier.lowercased(name)]) {
                if let other = seen[key], other.hasSameBytes(as: name) || !SQLIdentifier.equal(other, name) {
                    throw MigrationError(
                        .unsupported,
                        "the names of \(what) \(other) and \(name) look the same, but differ in their bytes: rename "
                            + "one of them",
                        table: table
                    )
                }
                seen[key] = name
            }
        }
    }

    /// Checks names that are to be added to `others`, or to be matched with `others` by name.
    static func checkNames(
        _ names: [String],
        besides others: [String],
        _ what: String,
        table: String? = nil
    ) throws(MigrationError) {
        try checkNames(Set((others + names).map(ExactString.init)).map(\.string), what, table: table)
    }

    /// The names of a file's tables, views and triggers.
    static func names(_ connection: Connection, in schema: String) throws -> [String] {
        try connection.fetchAll(
            "SELECT DISTINCT name FROM \(SQLIdentifier.quoted(schema)).sqlite_master "
                + "WHERE type IN ('table', 'view', 'trigger')"
        ).map { try $0.get(0) }
    }

    /// Checks that the texts of a schema's objects are valid UTF-8.
    ///
    /// - Parameters:
    ///   - condition: Chooses the objects, by the columns of `sqlite_master`.
    ///   - arguments: The arguments of `condition`.
    ///   - table: The table that the error is about.
    /// - Complexity: O(n) in the texts of the schema.
    static func checkTexts(
        _ connection: Connection,
        in schema: String,
        where condition: String = "1",
        _ arguments: Arguments = Arguments(),
        table: String? = nil
    ) throws {
        // A schema counts as known only if all of it is valid.
        if try connection.knownSchema(SQLIdentifier.unquoted(schema)) != nil { return }
        let master = "\(SQLIdentifier.quoted(schema)).sqlite_master"
        let rows = try connection.fetchAll(
            "SELECT rowid, name, sql, type FROM \(master) WHERE sql IS NOT NULL AND (\(condition))",
            arguments
        )
        for row in rows {
            let (name, sql): (String, String) = (try row.get(1), try row.get(2))
            guard mayBeRepaired(name) || mayBeRepaired(sql) else { continue }
            let same = try connection.fetchOne(
                "SELECT 1 FROM \(master) WHERE rowid = ? AND name = ? AND sql = ?",
                [try row.get(0, as: Int64.self), name, sql]
            )
            guard same == nil else { continue }
            throw MigrationError(
                .unsupported,
                "the definition of \(try row.get(3, as: String.self)) \(name) is not valid UTF-8: \(sql). Make it anew, with its "
                    + "texts in UTF-8, or as CAST(x'…' AS TEXT)",
                table: table
            )
        }
    }

    /// Whether a text contains the character that Swift puts in the place of invalid bytes. A valid text may contain it too.
    static func mayBeRepaired(_ text: String) -> Bool { text.unicodeScalars.contains("\u{FFFD}") }
}
