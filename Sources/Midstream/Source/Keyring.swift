internal import SQLiteConnection
internal import Synchronization

/// The encryption keys of a database's file and of its migrations' sources. They are kept only in memory.
final class Keyring: Sendable {
    /// The key of the target's file.
    let target: EncryptionKey?
    private let provider: (@Sendable (String) -> EncryptionKey?)?
    private let given = Mutex<[ExactString: EncryptionKey]>([:])

    init(target: EncryptionKey? = nil, sources provider: (@Sendable (String) -> EncryptionKey?)? = nil) {
        self.target = target
        self.provider = provider
    }

    /// Runs `body`, which attaches a source, with the encryption key that came with a migration. The key is kept only if `body`
    /// returns.
    ///
    /// - Parameter path: The source's path without links.
    func trying<Result>(_ key: EncryptionKey?, ofSource path: String, _ body: () throws -> Result) rethrows -> Result {
        let file = ExactString(string: path)
        let former = given.withLock { given in
            defer { if let key { given[file] = key } }
            return given[file]
        }
        do {
            return try body()
        } catch {
            given.withLock { $0[file] = former }
            throw error
        }
    }

    /// The key of a source, by its path without links.
    func key(ofSource path: String) -> EncryptionKey? {
        given.withLock { $0[ExactString(string: path)] } ?? provider?(path)
    }
}
