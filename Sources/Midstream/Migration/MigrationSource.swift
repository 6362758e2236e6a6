/// Where the rows of a migration come from.
public struct MigrationSource: Sendable, Hashable {
    enum Location: Hashable {
        case file(String)
        case sameDatabase
    }

    let location: Location

    /// Another database file, by its path.
    ///
    /// The path is stored relative to the target's, so that the pair may be moved together.
    public static func file(_ path: String) -> MigrationSource {
        MigrationSource(location: .file(path))
    }

    /// The target's own file: rows move from one of its tables to another.
    public static let sameDatabase = MigrationSource(location: .sameDatabase)
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
