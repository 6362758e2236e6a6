/// What becomes of rows that the source's file has no more, since a page of it is damaged.
public enum UnreadableRowPolicy: Int64, Sendable {
    /// Its table stops with ``MigrationError/Code/unreadableRows`` at the first of them. The rows before it have moved.
    case stop = 0
    /// They are left out, and the migration goes on. Their keys are in a table of the target's file that stays, and the
    /// source's table is kept. See ``MigrationProgress/Table/unreadableRowsTable``.
    case skip = 1
}
