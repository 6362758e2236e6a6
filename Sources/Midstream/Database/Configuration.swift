public import SQLiteConnection

/// How a ``Database`` is opened.
public struct DatabaseConfiguration: Sendable {
    /// The mode of the target's journal.
    public enum JournalMode: String, Sendable {
        /// A write-ahead log: readers and the writer do not wait for each other.
        case wal = "WAL"
        /// Whatever the file has.
        case unchanged
    }

    /// When the application's transactions reach the disk.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_synchronous>.
    public enum Synchronous: String, Sendable {
        /// At checkpoints. Consistent after a power loss, which may take the last transactions along.
        case normal = "NORMAL"
        /// With each commit.
        case full = "FULL"
    }

    /// The mode of the target's journal.
    public var journalMode = JournalMode.wal
    /// When transactions reach the disk.
    public var synchronous = Synchronous.normal
    /// Whether foreign keys are enforced.
    public var enforcesForeignKeys = false
    /// The most connections that read at the same time, at least 1.
    public var readerCount = 4
    /// How long a statement waits for another process's lock.
    public var busyTimeout = Duration.seconds(5)
    /// Whether the file is created when it does not exist.
    public var createsFile = true

    /// The keys of encrypted sources, by their paths without links: called when the database is opened, for migrations
    /// that are stored in it. `nil` for a source that is not encrypted.
    public var sourceKey: (@Sendable (_ path: String) -> EncryptionKey?)?

    /// The defaults.
    public init() {}
}
