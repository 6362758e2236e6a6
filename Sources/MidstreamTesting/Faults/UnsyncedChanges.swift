#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// The writes and truncations of each file that no sync has covered, and that the disk need not have when the power
/// fails; and the journals whose deletion no sync of their folder has covered.
struct UnsyncedChanges {
    /// A write or a truncation, and what is needed to take it back.
    struct Change {
        var offset: Int64
        /// The number of bytes written; `nil` for a truncation to `offset`.
        var count: Int64?
        /// The bytes that were there before, and the file's size before.
        var bytes: [UInt8]
        var size: Int64
    }

    private var changes: [String: [Change]] = [:]

    mutating func note(_ path: String, _ change: Change) { changes[path, default: []].append(change) }

    mutating func didSync(_ path: String, syncsFolder: Bool) {
        changes[path] = nil
        if syncsFolder { didSyncFolder(of: path) }
    }

    /// The contents of deleted journals, by their paths.
    private var deleted: [String: [UInt8]] = [:]

    mutating func willDelete(_ path: String, syncsFolder: Bool, mayComeBack: Bool) {
        changes[path] = nil
        if syncsFolder { return didSyncFolder(of: path) }
        if mayComeBack { deleted[path] = Self.bytes(of: path) }
    }

    private mutating func didSyncFolder(of path: String) {
        func folder(_ path: String) -> Substring { path[..<(path.lastIndex(of: "/") ?? path.startIndex)] }
        deleted = deleted.filter { folder($0.key) != folder(path) }
    }

    private static func bytes(of path: String) -> [UInt8] {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { return [] }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: Int(lseek(file, 0, SEEK_END)))
        _ = pread(file, &bytes, bytes.count, 0)
        return bytes
    }

    /// Takes back the changes and the deletions.
    ///
    /// - Parameter seed: With a seed, each change and deletion is kept or lost by chance, whatever came before and
    ///   after it: between two syncs, a disk writes in any order.
    func lose(except seed: UInt64?) {
        var random = seed.map(Coin.init)
        for (path, changes) in changes.sorted(by: { $0.key < $1.key }) {
            let file = open(path, O_RDWR)
            guard file >= 0 else { continue }
            // This goes back in time, so the bytes at a change's place are those that the change wrote.
            var kept: [(change: Change, bytes: [UInt8])] = []
            for change in changes.reversed() {
                if random?.toss() == true {
                    var bytes = [UInt8](repeating: 0, count: Int(change.count ?? 0))
                    _ = pread(file, &bytes, bytes.count, off_t(change.offset))
                    kept.append((change, bytes))
                }
                if !change.bytes.isEmpty {
                    _ = pwrite(file, change.bytes, change.bytes.count, off_t(change.offset))
                }
                _ = ftruncate(file, off_t(change.size))
            }
            for (change, bytes) in kept.reversed() {
                if change.count == nil {
                    _ = ftruncate(file, off_t(change.offset))
                } else {
                    _ = pwrite(file, bytes, bytes.count, off_t(change.offset))
                }
            }
            close(file)
        }
        for (path, bytes) in deleted.sorted(by: { $0.key < $1.key }) where random?.toss() != true {
            let file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0o644)
            guard file >= 0 else { continue }
            _ = pwrite(file, bytes, bytes.count, 0)
            close(file)
        }
    }

    /// A coin that falls the same way for the same seed. Source: SplitMix64, <https://prng.di.unimi.it/splitmix64.c>.
    private struct Coin {
        var state: UInt64

        init(_ seed: UInt64) { state = seed }

        mutating func toss() -> Bool {
            state &+= 0x9e37_79b9_7f4a_7c15
            var z = state
            z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
            z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
            return (z ^ (z >> 31)) & 1 == 1
        }
    }
}
