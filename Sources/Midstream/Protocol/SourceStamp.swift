internal import SQLiteConnection

/// The status of a source's file when its tables began to move although the file could not be fenced: its size, the time of its
/// last modification, its first bytes, which contain SQLite's change counter, and the size and time of its WAL.
///
/// The stamp shows whether anybody has written the file since, without reading its rows.
struct SourceStamp: Hashable {
    /// The stamp's stored form.
    let text: String

    init(text: String) { self.text = text }

    /// - Returns: `nil` if the file's status or its first bytes cannot be read.
    init?(of path: String) {
        guard let status = FilePath.status(path), let head = FilePath.head(path, bytes: 100) else { return nil }
        // FNV-1a gives the same value in every process.
        let hash = head.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        var parts = ["\(status.size)", Self.words(status.modified), String(hash, radix: 16)]
        if let wal = FilePath.status(path + "-wal"), wal.size > 0 {
            parts += ["\(wal.size)", Self.words(wal.modified)]
        }
        text = parts.joined(separator: " ")
    }

    private static func words(_ time: FilePath.Status.Time) -> String {
        let fraction = "\(time.nanoseconds)"
        return "\(time.seconds)." + String(repeating: "0", count: max(0, 9 - fraction.utf8.count)) + fraction
    }

    /// When the file was last modified, in the form that `touch -d @…` takes.
    var modified: String {
        text.split(separator: " ").dropFirst().first.map(String.init) ?? "?"
    }
}
