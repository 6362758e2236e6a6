#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif
internal import SQLiteConnection

/// Turns files into ones with a write-ahead log.
enum WALMode {
    /// Sets the mode of `main`, as long as others are in its way, which use the file in its old mode or set the new one too.
    ///
    /// SQLite reads the file before it locks it for this. It does not call its busy handler for a lock that somebody wants who
    /// reads already, since two of them might wait for each other; so this lets go and tries again.
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
    /// When transactions of `main` reach the disk, and stay there: one word with a WAL, another one without.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_synchronous>.
    func setSynchronous(_ word: String, withoutWAL other: String) throws {
        let mode = try fetchValue(String.self, "PRAGMA main.journal_mode")
        try execute("PRAGMA main.synchronous = \(mode == "wal" ? word : other)")
    }
}
