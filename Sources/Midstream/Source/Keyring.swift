internal import SQLiteConnection
internal import Synchronization

/// The keys of a database's file and of the sources of its migrations. They are kept in memory alone.
final class Keyring: Sendable {
    /// The key of the target's file.
    let target: EncryptionKey?
    private let provider: (@Sendable (String) -> EncryptionKey?)?
    private let given = Mutex<[String: EncryptionKey]>([:])

    init(target: EncryptionKey? = nil, sources provider: (@Sendable (String) -> EncryptionKey?)? = nil) {
        self.target = target
        self.provider = provider
    }

    /// Notes the key that came with a migration.
    ///
    /// - Parameter path: The source's path without links.
    func note(_ key: EncryptionKey?, ofSource path: String) {
        given.withLock { $0[path] = key }
    }

    /// The key of a source, by its path without links.
    func key(ofSource path: String) -> EncryptionKey? {
        given.withLock { $0[path] } ?? provider?(path)
    }
}
