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
    /// The path is stored relative to the target's path, so that both files may be moved together.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - key: The key of an encrypted file. Midstream does not store it: give it again at each launch, and have
    ///     ``DatabaseConfiguration/sourceKey`` give it while the database is being opened.
    public static func file(_ path: String, key: EncryptionKey? = nil) -> MigrationSource {
        MigrationSource(location: .file(path), key: key)
    }

    /// The target's own file: rows move from one of its tables to another.
    public static let sameDatabase = MigrationSource(location: .sameDatabase, key: nil)
}

extension MigrationSource: Hashable {
    /// Whether two sources are the same place, whatever their keys.
    public static func == (a: MigrationSource, b: MigrationSource) -> Bool { a.location == b.location }

    /// Hashes only the place.
    public func hash(into hasher: inout Hasher) { hasher.combine(location) }
}

/// One table of the target, for the filter of ``Database/addMigration(source:retirement:givingUp:allowsNoTables:filter:)`` to fill in.
public struct TableMigration: Sendable {
    /// The target's table.
    public let name: String
    /// The source's table whose rows move into this table. `nil`, the default, for none.
    public var sourceTable: String?
    /// Which rows of the source belong to the migration: a condition in SQL on the source's columns, such as `archived = 0`. `nil`
    /// for all rows.
    ///
    /// The condition must depend on the row alone. So it must not use LIKE, whose meaning a pragma changes for one connection: use
    /// GLOB. A row for which the condition is NULL does not belong. Write the name of a column called `rowid`, `_rowid_`, `oid`,
    /// `true` or `false` in double quotes; without quotes these words do not mean columns. While rows move, asking for other rows
    /// is an error (``MigrationError/Code/misuse``). Once the rows have moved, other rows of the same table may follow.
    public var condition: String?
    /// What columns of the target are made of, by their names, where that is not the source's column of the same name.
    ///
    ///     table.columns["full_name"] = .expression("first || ' ' || last")
    ///     table.columns["created"] = .column("created_at")
    ///
    /// Midstream converts values to the column's type, as an INSERT does. Pending rows are read with the values that they will
    /// have. The target's PRIMARY KEY must be made of columns of the source, or be its rowid. Conditions on a mapped column use an
    /// index of the source on the column, or on that very expression.
    public var columns: [String: ColumnMapping] = [:]
    /// What becomes of columns that only one of the tables has, and that ``columns`` does not name.
    public var unmatchedColumns = UnmatchedColumns.refused
    /// How Midstream checks that the target has what the source had. Chosen when the table begins to move.
    public var verification = MigrationVerification.batches
    /// What becomes of rows that the target refuses.
    public var refusedRows = RefusedRowPolicy.stop
    /// Whether each row that comes into the target fires the target's triggers for INSERT, as an INSERT of the row would.
    ///
    /// `nil`, the default, is right for a table without such triggers. A table with such triggers begins to move only if the filter
    /// has set one of the two values:
    ///
    /// - `true`: each row fires the triggers once, in the transaction that brings the row: a step's, or that of the statement that
    ///   needs the row. Right if the triggers keep an index, a full-text table or a counter up to date that is to get the rows.
    ///   What the triggers do must not touch moving tables; `Docs/COMPAT.md` lists what else is refused.
    /// - `false`: rows come without firing a trigger. Right if the triggers' tables have these rows already, for instance because
    ///   those tables came over from the source, and for triggers that concern only rows of new origin.
    ///
    /// Chosen when the table begins to move. Midstream does not look for TEMP triggers: moving rows never fire them.
    public var firesTriggers: Bool?
    /// The tables that foreign keys of this table may refer to although the target does not have them.
    ///
    /// SQLite looks for the other end of a foreign key only in the same file. So a key whose other end stays behind, or moves into
    /// another file, is an error (``MigrationError/Code/missingTable``) unless this set names the table that it refers to. While
    /// foreign keys are enforced, SQLite refuses to write a table with such a key.
    ///
    ///     table.waivedForeignKeys = ["users"]
    public var waivedForeignKeys: Set<String> = []
    /// What becomes of rows that cannot be read because the source's file is damaged.
    public var unreadableRows = UnreadableRowPolicy.stop

    /// Whether all tables of the source's file move, with the file.
    var movesWithFile = false

    init(name: String) {
        self.name = name
    }
}
