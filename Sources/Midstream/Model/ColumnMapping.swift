public import SQLiteConnection

/// What a column of the target gets in the rows that move. See ``TableMigration/columns``.
public enum ColumnMapping: Hashable, Sendable {
    /// A column of the source, by its name. If no column is called `rowid`, that name means the source's rowid.
    case column(String)
    /// An expression in SQL on the source's columns, such as `first || ' ' || last`. It must depend on the row alone,
    /// as ``TableMigration/condition`` does.
    case expression(String)
    /// The same value in all rows.
    case value(SQLiteValue)
    /// The DEFAULT of the target's column, evaluated once, when the migration is added.
    case defaultValue
}

/// What becomes of columns that only one of the two tables has, and that ``TableMigration/columns`` does not name.
public enum UnmatchedColumns: Sendable {
    /// The migration is refused with an error that lists them.
    case refused
    /// A column that only the source has stays behind, and is lost when the source is retired. A column that only the target has
    /// gets its default; an INTEGER PRIMARY KEY gets the source's rowid.
    case ignored
}
