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
        try rollingBack({ try rollBack(path, key) }, body)
    }

    /// The same for several files, any of which may have the journal.
    static func rollingBack<Result>(_ rollBack: () throws -> Void, _ body: () throws -> Result) throws -> Result {
        var tries = 0
        while true {
            do {
                return try body()
            } catch {
                // Others may die meanwhile.
                tries += 1
                guard (error as? SQLiteError)?.code == .readOnlyRollback, tries < 10 else { throw error }
                try rollBack()
            }
        }
    }

    static func rollBack(_ path: String, _ key: EncryptionKey?) throws {
        let connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: key))
        defer { connection.close() }
        // Somebody else may be rolling it back, or write by now.
        connection.setBusyTimeout(milliseconds: 5000)
        try connection.checkReadable()
    }
}
