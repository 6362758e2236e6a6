internal import SQLiteConnection

/// A rollback journal that a writer which failed or died has left behind. Whoever reads the file next rolls it back, but a
/// connection that only reads cannot.
///
/// Source: <https://www.sqlite.org/lockingv3.html#hot_journals>.
enum HotJournal {
    /// Runs `body`, which begins to read a file; where a hot journal keeps it from that, again when that is rolled back.
    static func rollingBack<Result>(
        of path: String,
        _ key: EncryptionKey?,
        _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch {
            guard (error as? SQLiteError)?.code == .readOnlyRollback else { throw error }
            let connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: key))
            defer { connection.close() }
            try connection.checkReadable()
            return try body()
        }
    }
}
