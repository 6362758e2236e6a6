public import SQLiteConnection

/// Where the rows of a migration come from.
public struct MigrationSource: Sendable {
    enum Location: Hashable {
        case file(String)
        case sameDatabase
    }

    let location: Location
    let key: EncryptionKey?

    /// Another database file, by its path.
    ///
    /// The path is stored relative to the target's, so that the pair may be moved together.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - key: The key of an encrypted file. It is not stored: give it again at each launch, and have
    ///     ``DatabaseConfiguration/sourceKey`` give it while the database is being opened.
    public static func file(_ path: String, key: EncryptionKey? = nil) -> MigrationSource {
        MigrationSource(location: .file(path), key: key)
    }

    /// The target's own file: rows move from one of its tables to another.
    public static let sameDatabase = MigrationSource(location: .sameDatabase, key: nil)
}

extension MigrationSource: Hashable {
    /// Whether they are the same place, by whatever key.
    public static func == (a: MigrationSource, b: MigrationSource) -> Bool { a.location == b.location }

    /// Hashes the place alone.
    public func hash(into hasher: inout Hasher) { hasher.combine(location) }
}

/// One table of the target, for the filter of ``Database/addMigration(source:retirement:filter:)`` to fill in.
public struct TableMigration: Sendable {
    /// The target's table.
    public let name: String
    /// The source's table whose rows move into it. `nil`, as at first: none.
    public var sourceTable: String?
    /// Which rows of the source belong: a condition in SQL on the source's columns, such as `archived = 0`. `nil`: all.
    ///
    /// It must depend on the row alone. Rows for which it is NULL do not belong.
    public var condition: String?

    init(name: String) {
        self.name = name
    }
}
