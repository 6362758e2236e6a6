/// How it is made sure that the target has what the source had.
///
/// Whatever is chosen, the rows are counted by other means than they are copied by before a table is called moved.
public enum MigrationVerification: Int64, Sendable {
    /// By the count alone.
    case count = 0
    /// Each batch is read back from the target, and compared with the source, in the transaction that copies it.
    case batches = 1
    /// Besides, a checksum of all rows, those that statements have brought over included, is compared with one of the
    /// source's rows, read from the last to the first, before the table is called moved. Every value is hashed twice.
    case complete = 2
}
