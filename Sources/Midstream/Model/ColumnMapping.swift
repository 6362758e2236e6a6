public import SQLiteConnection

/// What the rows that move have in a column of the target. See ``TableMigration/columns``.
public enum ColumnMapping: Hashable, Sendable {
    /// A column of the source, by its name. `rowid` is the source's rowid, where no column has that name.
    case column(String)
    /// An expression in SQL on the source's columns, such as `first || ' ' || last`. It must depend on the row alone,
    /// as ``TableMigration/condition`` does.
    case expression(String)
    /// The same value in all rows.
    case value(SQLiteValue)
    /// What the target's column has by DEFAULT, evaluated once, when the migration is added.
    case defaultValue
}

/// What becomes of columns that only one of the two tables has, and that ``TableMigration/columns`` does not name.
public enum UnmatchedColumns: Sendable {
    /// The migration is refused with an error that lists them.
    case refused
    /// What the source alone has stays behind, and goes when the source is retired. What the target alone has gets its
    /// default; an INTEGER PRIMARY KEY gets the source's rowid.
    case ignored
}
