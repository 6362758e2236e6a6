internal import SQLiteC
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Kills the process at a chosen write, sync, truncation or deletion of a database's files, for tests of what a crash
/// leaves behind.
///
/// A test that spawns a process for each point, Swift Testing's exit tests for instance, learns whether the application's
/// data are whole wherever it dies:
///
///     let count = 200                              // as many as KillingVFS.operations said after a run that lived
///     for point in 1...count {
///         await #expect(processExitsWith: .signal(SIGKILL)) { [path, point] in
///             try KillingVFS.register()
///             KillingVFS.kill(at: point)
///             try runWhatIsTested(path)
///             KillingVFS.killNow()                 // it came to its end
///         }
///         try checkWhatIsLeft(path)
///     }
///
/// It is a VFS that passes everything to the one that was SQLite's default. Memory that processes share (a WAL's index)
/// and temporary files are not counted. Source: <https://www.sqlite.org/vfs.html>.
public enum KillingVFS {
    /// What the process leaves behind when it is killed.
    public enum Manner: String, Sendable, Codable, CaseIterable {
        /// All that was written before, and nothing of the operation.
        case before
        /// The first half of a write as well.
        case torn
        /// Of each file what its last sync covered: the power failed. Deletions are kept.
        case powerLoss
    }

    /// Makes it SQLite's default, for all connections that the process opens from now on.
    ///
    /// - Throws: ``RegistrationError`` when SQLite has no default to pass on to, or refuses.
    public static func register() throws {
        guard Original.address.withLock({ $0 }) == 0 else { return }
        guard let original = sqlite3_vfs_find(nil) else { throw RegistrationError() }
        Original.address.withLock { $0 = UInt(bitPattern: original) }
        // Never freed: SQLite keeps them.
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        vfs.initialize(to: original.pointee)
        vfs.pointee.pNext = nil
        vfs.pointee.zName = UnsafePointer(strdup("midstream-killing"))
        vfs.pointee.xOpen = openFile
        vfs.pointee.xDelete = deleteFile
        guard sqlite3_vfs_register(vfs, 1) == SQLITE_OK else { throw RegistrationError() }
    }

    /// SQLite's default VFS could not be replaced.
    public struct RegistrationError: Error {}

    /// Has the process killed at the `point`-th operation from now, 1 being the next one.
    public static func kill(at point: Int, manner: Manner = .before) {
        FaultState.shared.withLock { state in
            state.count = 0
            state.point = point
            state.manner = manner
        }
    }

    /// Lets the process live, and starts counting anew.
    public static func disarm() {
        kill(at: 0)
    }

    /// The operations since ``kill(at:manner:)`` or ``disarm()``.
    public static var operations: Int {
        FaultState.shared.withLock { $0.count }
    }

    /// Kills the process here, in the manner that was chosen.
    public static func killNow() -> Never {
        FaultState.shared.withLock { $0.die() }
    }
}

/// The VFS that was the default before. The address is that of a struct that SQLite never frees.
enum Original {
    static let address = Mutex<UInt>(0)

    static var vfs: UnsafeMutablePointer<sqlite3_vfs>? {
        UnsafeMutablePointer(bitPattern: address.withLock { $0 })
    }
}

/// What is counted, and what the operations that no sync has covered yet have overwritten.
struct FaultState {
    static let shared = Mutex(FaultState())

    var count = 0
    var point = 0
    var manner = KillingVFS.Manner.before
    /// The paths of open files, by the addresses of SQLite's objects.
    var paths: [UInt: String] = [:]
    private var undo: [String: [Undo]] = [:]

    /// How a write or truncation is taken back: the bytes that stood at an offset, then the size.
    private struct Undo {
        var offset: Int64
        var bytes: [UInt8]
        var size: Int64
    }

    /// Counts an operation; `true` when it is the last one.
    mutating func isLast() -> Bool {
        count += 1
        return count == point
    }

    mutating func die() -> Never {
        if manner == .powerLoss { losePower() }
        raise(SIGKILL)
        while true { pause() }
    }

    /// Notes what a write or truncation from `offset` on is about to overwrite.
    mutating func willChange(
        _ file: UnsafeMutablePointer<sqlite3_file>,
        _ methods: UnsafePointer<sqlite3_io_methods>,
        from offset: Int64,
        count wanted: Int64
    ) {
        guard manner == .powerLoss, let path = paths[UInt(bitPattern: file)] else { return }
        var size: sqlite3_int64 = 0
        _ = methods.pointee.xFileSize(file, &size)
        var bytes = [UInt8](repeating: 0, count: Int(max(0, min(wanted, size - offset))))
        if !bytes.isEmpty { _ = methods.pointee.xRead(file, &bytes, Int32(bytes.count), offset) }
        undo[path, default: []].append(Undo(offset: offset, bytes: bytes, size: size))
    }

    mutating func didSync(_ file: UnsafeMutablePointer<sqlite3_file>) {
        if let path = paths[UInt(bitPattern: file)] { undo[path] = nil }
    }

    mutating func didDelete(_ path: String) {
        undo[path] = nil
    }

    /// Puts back what no sync has covered. A WAL's index does not outlive the machine.
    private func losePower() {
        for (path, changes) in undo {
            let descriptor = open(path, O_RDWR)
            guard descriptor >= 0 else { continue }
            for change in changes.reversed() {
                if !change.bytes.isEmpty {
                    _ = pwrite(descriptor, change.bytes, change.bytes.count, off_t(change.offset))
                }
                _ = ftruncate(descriptor, off_t(change.size))
            }
        }
        for path in Set(paths.values) { unlink(path + "-shm") }
    }
}
