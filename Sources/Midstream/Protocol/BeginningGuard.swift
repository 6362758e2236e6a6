internal import SQLText

/// The triggers of a table whose move was cut short as it began. They refuse new rows until the move begins or is taken back.
enum BeginningGuard {
    static func name(_ event: String, _ id: Int64) -> String { "\(OwnNames.beginningPrefix)\(event)_\(id)" }

    /// - Parameter source: The source's file; `nil` if it is the target's own.
    static func create(_ record: TableRecord, from source: String?) -> [String] {
        let words =
            "table \(record.target) cannot be written: rows of table "
            + "\(record.source)\(source.map { " of " + $0 } ?? "") are to move into it, and the move could not "
            + "begin. Call addMigration again to see why, or cancelMigration to give the move up"
        return OwnNames.beginningEvents.map { event in
            "CREATE TRIGGER IF NOT EXISTS main.\(name(event, record.id)) BEFORE \(event.uppercased()) ON "
                + "\(SQLIdentifier.quoted(record.target)) BEGIN SELECT RAISE(ABORT, \(SQLLiteral.quoted(words))); END"
        }
    }

    static func drop(_ record: TableRecord, in schema: String = "main") -> [String] {
        OwnNames.beginningEvents.map { "DROP TRIGGER IF EXISTS \(schema).\(name($0, record.id))" }
    }
}
