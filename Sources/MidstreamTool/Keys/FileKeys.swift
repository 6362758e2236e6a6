internal import SQLiteConnection

/// The keys of a command's files; `nil` for one that is not encrypted.
struct FileKeys: Sendable {
    /// That of every source, also of those whose migrations the target has stored.
    var source: EncryptionKey?
    var target: EncryptionKey?
}
