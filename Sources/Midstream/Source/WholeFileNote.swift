internal import SQLText
internal import SQLiteConnection

/// What a file has noted of the one that its schema was copied from, when all of that file is to move.
enum WholeFileNote: Equatable {
    /// Nothing: it is finished, or was never made so.
    case none
    /// All that was copied.
    case copied(String)
    /// The source has turned out to be another by now. What has begun is taken back, and nothing begins any more.
    case withdrawn

    /// What the schema of a new file was copied from, until all of its tables move, and it is known that nobody has changed that
    /// before they were fenced. Until then the file lacks all rows, and is nobody's but its maker's.
    static let table = OwnNames.copy

    /// What is noted, in one snapshot: another process may look at the same time, and drop it.
    static func read(_ connection: Connection) throws -> WholeFileNote {
        try connection.holdingSnapshots(of: ["main"]) { try readInTransaction(connection) }
    }

    static func readInTransaction(_ connection: Connection) throws -> WholeFileNote {
        guard try isUnfinished(connection) else { return .none }
        let copied: String? = try connection.fetchValue("SELECT source FROM main.\(table)")
        return copied.map(WholeFileNote.copied) ?? .withdrawn
    }

    /// The file that one was made of, by ``FilePath/lastingIdentity(_:)``, in the transaction that is open.
    static func copiedFile(_ connection: Connection) throws -> String? {
        try connection.fetchValue("SELECT file FROM main.\(table)")
    }

    /// Has a file taken back by whoever opens it, in the transaction that is open.
    static func withdraw(_ connection: Connection) throws {
        try connection.execute("UPDATE main.\(table) SET source = NULL")
    }

    /// Whether a file is to be taken back, in the transaction that is open.
    static func isWithdrawn(_ connection: Connection) throws -> Bool { try readInTransaction(connection) == .withdrawn }

    /// Makes sure, in the transaction that is open, that a file is none that is to be taken back.
    static func checkNotWithdrawn(_ connection: Connection) throws {
        guard try isWithdrawn(connection) else { return }
        let path = connection.fileName(schema: "main") ?? "the file"
        throw MigrationError(
            .sourceChanged,
            "the file that \(path) was made of has been changed meanwhile, and \(path) is being taken back: try again"
        )
    }

    /// Whether a file is one that is being made of another one.
    ///
    /// - Parameter schema: What it is attached as.
    static func isUnfinished(_ connection: Connection, as schema: String = "main") throws -> Bool {
        try StateStore(connection: connection, schema: SQLIdentifier.quoted(schema)).exists(table)
    }

    /// Makes sure that a file is none that is being made of another one.
    ///
    /// - Parameter schema: What it is attached as.
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
