#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif
internal import SQLiteConnection

/// Sets files to the journal mode WAL.
enum WALMode {
    /// Sets the journal mode of `main`. Tries again while other connections are in the way: those that use the file in its old
    /// mode, and those that set the new mode too.
    ///
    /// SQLite reads the file before it locks the file for this. It does not call the busy handler of a connection that reads
    /// already and wants a lock, since two such connections might wait for each other. So this method lets go of the lock and tries
    /// again.
    ///
    /// - Parameter patience: How long to try.
    static func set(_ connection: Connection, patience: Duration) throws(SQLiteError) {
        let start = ContinuousClock.now
        while true {
            do {
                return try connection.execute("PRAGMA main.journal_mode = WAL")
            } catch {
                guard ResultCode.busy ~= error.code, .now - start < patience else { throw error }
                usleep(2000)
            }
        }
    }
}

extension Connection {
    /// Sets when transactions of `main` are synced to the disk: `word` if the file has a WAL, `other` if it has none.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_synchronous>.
    func setSynchronous(_ word: String, withoutWAL other: String) throws {
        let mode = try fetchValue(String.self, "PRAGMA main.journal_mode")
        try execute("PRAGMA main.synchronous = \(mode == "wal" ? word : other)")
    }
}
