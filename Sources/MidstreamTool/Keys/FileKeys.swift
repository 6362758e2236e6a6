internal import SQLiteConnection

/// The keys of a command's files; `nil` for a file that is not encrypted.
struct FileKeys: Sendable {
    /// The key of every source, including the sources of migrations that are stored in the target.
    var source: EncryptionKey?
    var target: EncryptionKey?
}
