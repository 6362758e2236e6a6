public import SQLiteConnection

/// How a ``Database`` is opened.
public struct DatabaseConfiguration: Sendable {
    /// The mode of the target's journal.
    public enum JournalMode: String, Sendable {
        /// A write-ahead log: readers and the writer do not wait for each other.
        case wal = "WAL"
        /// The mode that the file already has.
        case unchanged
    }

    /// When the application's transactions reach the disk.
    ///
    /// Without a WAL, Midstream replaces each setting by SQLite's next higher one: after a power loss, NORMAL could
    /// leave the file damaged, and FULL could bring back a transaction's journal.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_synchronous>.
    public enum Synchronous: String, Sendable {
        /// At checkpoints. After a power loss the file is consistent, but the last transactions may be lost.
        case normal = "NORMAL"
        /// With each commit.
        case full = "FULL"

        /// SQLite's next higher setting.
        var withoutWAL: String { self == .normal ? "FULL" : "EXTRA" }
    }

    /// The mode of the target's journal.
    public var journalMode = JournalMode.wal
    /// When transactions reach the disk.
    public var synchronous = Synchronous.normal
    /// Whether foreign keys are enforced.
    public var enforcesForeignKeys = false
    /// The most connections that read at the same time, at least 1. A read within another read gets a connection beyond
    /// this number while it lasts.
    public var readerCount = 4
    /// How long a statement waits for another process's lock.
    public var busyTimeout = Duration.seconds(5)
    /// Whether the file is created if it does not exist.
    public var createsFile = true

    /// Whether the database is opened so that all of another file moves into it. That move may have yet to begin.
    var movesWholeFile = false

    /// Gives the key of an encrypted source, by the source's path without links; `nil` for a source that is not
    /// encrypted. Midstream calls it when the database is opened, for the migrations that are stored in it.
    public var sourceKey: (@Sendable (_ path: String) -> EncryptionKey?)?

    /// Gives the present place of a source. Midstream calls it when the database is opened, for the migrations that are
    /// stored in it, with the path that the source had as seen from the target's folder. If it returns `nil`, Midstream
    /// looks for the source at that path.
    ///
    /// Target and source name each other by relative paths, so both may be moved together. If they are in containers
    /// whose paths change independently, as iOS does with those of an application and of its app group, say where the
    /// source is:
    ///
    ///     configuration.sourcePath = { path in groupFolder + "/" + (path as NSString).lastPathComponent }
    ///
    /// The source then takes this file for the one that its rows move to, unless the file that the source knows of is
    /// still in its place: a copy must not take the rows from the original.
    public var sourcePath: (@Sendable (_ path: String) -> String?)?

    /// The defaults.
    public init() {}
}
