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
    /// Without a WAL each is taken for SQLite's next higher one, for a power loss could damage the file with NORMAL, and bring back a
    /// transaction's journal with FULL.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_synchronous>.
    public enum Synchronous: String, Sendable {
        /// At checkpoints. Consistent after a power loss, which may take the last transactions along.
        case normal = "NORMAL"
        /// With each commit.
        case full = "FULL"

        /// SQLite's next higher one.
        var withoutWAL: String { self == .normal ? "FULL" : "EXTRA" }
    }

    /// The mode of the target's journal.
    public var journalMode = JournalMode.wal
    /// When transactions reach the disk.
    public var synchronous = Synchronous.normal
    /// Whether foreign keys are enforced.
    public var enforcesForeignKeys = false
    /// The most connections that read at the same time, at least 1. A read within another one has one besides, for as long.
    public var readerCount = 4
    /// How long a statement waits for another process's lock.
    public var busyTimeout = Duration.seconds(5)
    /// Whether the file is created when it does not exist.
    public var createsFile = true

    /// Whether it is opened to have all of another file move into it, which may have yet to begin.
    var movesWholeFile = false

    /// The keys of encrypted sources, by their paths without links: called when the database is opened, for migrations
    /// that are stored in it. `nil` for a source that is not encrypted.
    public var sourceKey: (@Sendable (_ path: String) -> EncryptionKey?)?

    /// Where the sources of the migrations that are stored in the database are by now: called when it is opened, with the path
    /// that a source had as seen from the target's folder. `nil` where nothing is known of it; it is looked for there then.
    ///
    /// Target and source name each other by relative paths, so both may be moved together. Where the two are in containers that
    /// get other paths each for itself, as iOS does with those of an application and of its app group, say where the source is:
    ///
    ///     configuration.sourcePath = { path in groupFolder + "/" + (path as NSString).lastPathComponent }
    ///
    /// The source then takes this file for the one that its rows move to, unless the file of which it knows is still where it was:
    /// a copy does not take the rows from under the original.
    public var sourcePath: (@Sendable (_ path: String) -> String?)?

    /// The defaults.
    public init() {}
}
