/// How Midstream checks that the target has what the source had.
///
/// With each of these, Midstream counts the rows in another way than it copies them, before it calls the table moved.
public enum MigrationVerification: Int64, Sendable {
    /// Midstream compares only the counts.
    case count = 0
    /// Midstream also reads each batch back from the target and compares it with the source, in the transaction that copies the
    /// batch.
    case batches = 1
    /// Midstream also compares two checksums before it calls the table moved: one of all rows that came, including those that
    /// statements brought over, and one of the source's rows, read from the last to the first. Every value is hashed twice.
    case complete = 2
}
