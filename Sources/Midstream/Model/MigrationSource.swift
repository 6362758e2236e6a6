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

/// One table of the target, for the filter of ``Database/addMigration(source:retirement:givingUp:allowsNoTables:filter:)`` to fill in.
public struct TableMigration: Sendable {
    /// The target's table.
    public let name: String
    /// The source's table whose rows move into it. `nil`, as at first: none.
    public var sourceTable: String?
    /// Which rows of the source belong: a condition in SQL on the source's columns, such as `archived = 0`. `nil`: all.
    ///
    /// It must depend on the row alone, and so has no LIKE, which a pragma changes on one connection: use GLOB. Rows for which
    /// it is NULL do not belong. A column called `rowid`, `_rowid_`, `oid`, `true` or `false` is written in double quotes; without
    /// them these words are no columns. While they move, asking for others is an error (``MigrationError/Code/misuse``); once they
    /// have, others may follow from the same table.
    public var condition: String?
    /// What the target's columns are made of, by their names, where it is not the source's column of the same name.
    ///
    ///     table.columns["full_name"] = .expression("first || ' ' || last")
    ///     table.columns["created"] = .column("created_at")
    ///
    /// Values are converted to the column's type as in an INSERT. Rows that have yet to move are read as they will be. The
    /// target's PRIMARY KEY must be columns of the source, or its rowid; conditions on a mapped column use an index of the
    /// source, on the column or on the very expression.
    public var columns: [String: ColumnMapping] = [:]
    /// What becomes of columns that only one of the tables has, and that ``columns`` does not name.
    public var unmatchedColumns = UnmatchedColumns.refused
    /// How it is made sure that the target has what the source had. It is chosen when a table begins to move.
    public var verification = MigrationVerification.batches
    /// What becomes of rows that the target does not take.
    public var refusedRows = RefusedRowPolicy.stop
    /// Whether each row that comes into the target fires the target's triggers for INSERT, as if it were inserted.
    ///
    /// `nil`, as at first, is right for a table that has no such triggers. A table that has some begins to move only when the
    /// filter has said one of the two:
    ///
    /// - `true`: each row fires them once, in the transaction that brings it: in a step, or with the statement that needs the row.
    ///   For an index, a full-text table or a counter that the triggers keep, and that is to get the rows. What the triggers do
    ///   must not touch moving tables; see `Docs/COMPAT.md` for what else is refused.
    /// - `false`: rows come without firing a trigger. For side tables that have these rows already, for instance since they came
    ///   over from the source, and for triggers that concern rows of new origin alone.
    ///
    /// It is chosen when a table begins to move. TEMP triggers are not looked for: rows that move never fire them.
    public var firesTriggers: Bool?
    /// The tables to which foreign keys of this table may refer although the target does not have them.
    ///
    /// SQLite finds the other end of a foreign key in the same file alone. So a key whose other end stays behind, or moves into
    /// another file, is an error (``MigrationError/Code/missingTable``) unless the table that it refers to is named here. While
    /// foreign keys are enforced, SQLite refuses to write a table with such a key.
    ///
    ///     table.waivedForeignKeys = ["users"]
    public var waivedForeignKeys: Set<String> = []
    /// What becomes of rows that cannot be read, since the source's file is damaged.
    public var unreadableRows = UnreadableRowPolicy.stop

    /// Whether all of the source's tables move.
    var movesWithFile = false

    init(name: String) {
        self.name = name
    }
}
