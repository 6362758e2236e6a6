internal import SQLiteConnection

/// A rollback journal that a writer left behind when it failed or died. The next connection that reads the file rolls the journal
/// back; a read-only connection cannot do that.
///
/// Source: <https://www.sqlite.org/lockingv3.html#hot_journals>.
enum HotJournal {
    /// Runs `body`, which begins to read a file. If a hot journal prevents the read, rolls the journal back and runs `body` again.
    static func rollingBack<Result>(
        of path: String,
        _ key: EncryptionKey?,
        _ body: () throws -> Result
    ) throws -> Result {
        try rollingBack({ try rollBack(path, key) }, body)
    }

    /// Like `rollingBack(of:_:_:)`, for a `body` that reads several files, any of which may have the hot journal.
    static func rollingBack<Result>(_ rollBack: () throws -> Void, _ body: () throws -> Result) throws -> Result {
        var tries = 0
        while true {
            do {
                return try body()
            } catch {
                // Another writer may die meanwhile, and leave the next hot journal.
                tries += 1
                guard (error as? SQLiteError)?.code == .readOnlyRollback, tries < 10 else { throw error }
                try rollBack()
            }
        }
    }

    static func rollBack(_ path: String, _ key: EncryptionKey?) throws {
        let connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: key))
        defer { connection.close() }
        // Another connection may be rolling the journal back, or already write.
        connection.setBusyTimeout(milliseconds: 5000)
        try connection.checkReadable()
    }
}
