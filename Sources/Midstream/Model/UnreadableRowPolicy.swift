/// What becomes of rows that the source's file has lost because one of its pages is damaged.
public enum UnreadableRowPolicy: Int64, Sendable {
    /// The table stops with ``MigrationError/Code/unreadableRows`` at the first such row. The rows before it have moved.
    case stop = 0
    /// Midstream leaves such rows out, and the migration goes on. The keys of these rows are in a table of the target's file that
    /// stays, and the source's table is kept. See ``MigrationProgress/Table/unreadableRowsTable``.
    case skip = 1
}
