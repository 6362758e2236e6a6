internal import SQLText
internal import SQLiteConnection

/// The note of a file whose schema was copied from another file, all of which is to move.
enum WholeFileNote: Equatable {
    /// There is no note: the file is finished, or was never made in this way.
    case none
    /// The note of everything that was copied.
    case copied(String)
    /// The source has turned out to be another file by now. What has begun is taken back, and nothing begins any more.
    case withdrawn

    /// The table of the note. It exists until all tables move, and it is known that nobody changed the source before its tables
    /// were fenced. Until then the file lacks all rows, and only its maker may use it.
    static let table = OwnNames.copy

    /// Reads the note in one snapshot: another process may look at it at the same time, and drop it.
    static func read(_ connection: Connection) throws -> WholeFileNote {
        try connection.holdingSnapshots(of: ["main"]) { try readInTransaction(connection) }
    }

    static func readInTransaction(_ connection: Connection) throws -> WholeFileNote {
        guard try isUnfinished(connection) else { return .none }
        let copied: String? = try connection.fetchValue("SELECT source FROM main.\(table)")
        return copied.map(WholeFileNote.copied) ?? .withdrawn
    }

    /// The source file, by ``FilePath/lastingIdentity(_:)``, in the open transaction.
    static func copiedFile(_ connection: Connection) throws -> String? {
        try connection.fetchValue("SELECT file FROM main.\(table)")
    }

    /// Marks the file as withdrawn, in the open transaction: every connection that opens it takes it back.
    static func withdraw(_ connection: Connection) throws {
        try connection.execute("UPDATE main.\(table) SET source = NULL")
    }

    /// Whether the file is withdrawn, in the open transaction.
    static func isWithdrawn(_ connection: Connection) throws -> Bool { try readInTransaction(connection) == .withdrawn }

    /// Checks that the file is not withdrawn, in the open transaction.
    static func checkNotWithdrawn(_ connection: Connection) throws {
        guard try isWithdrawn(connection) else { return }
        let path = connection.fileName(schema: "main") ?? "the file"
        throw MigrationError(
            .sourceChanged,
            "the file from which \(path) is being made has changed, so \(path) is being withdrawn: try again"
        )
    }

    /// Whether a file is unfinished: it is being made from another file.
    ///
    /// - Parameter schema: The schema under which the file is attached.
    static func isUnfinished(_ connection: Connection, as schema: String = "main") throws -> Bool {
        try StateStore(connection: connection, schema: SQLIdentifier.quoted(schema)).exists(table)
    }

    /// Checks that a file is finished: it is not being made from another file.
    ///
    /// - Parameter schema: The schema under which the file is attached.
    static func checkFinished(_ connection: Connection, as schema: String = "main") throws {
        if try isUnfinished(connection, as: schema) { throw unfinished(connection.fileName(schema: schema)) }
    }

    static func unfinished(_ path: String?) -> MigrationError {
        MigrationError(
            .misuse,
            "\(path ?? "the file") has the schema of another file, whose rows have not begun to move: open it by "
                + "Database(path:movingAllOf:) first"
        )
    }
}
