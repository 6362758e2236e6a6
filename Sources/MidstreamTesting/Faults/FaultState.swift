internal import Midstream
internal import SQLiteC
internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// What is to happen to files, and what is known of them: the single state of ``KillingVFS`` and ``FailingVFS``.
struct FaultState {
    /// Unchecked Sendable: the state is reachable only through ``withLock(_:)``.
    ///
    /// The lock is taken for each operation on a file. With a lock that the thread sanitizer does not see, each
    /// operation would give a report, and would be a hundred times as slow.
    final class Shared: @unchecked Sendable {
        private let lock = Lock()
        private var state = FaultState()

        func withLock<Result>(_ body: (inout FaultState) throws -> Result) rethrows -> Result {
            try lock.withLock { try body(&state) }
        }
    }

    static let shared = Shared()

    /// A file that SQLite has open.
    private struct OpenFile {
        /// Empty for a temporary file.
        var path: String
        /// The methods of the VFS below this one.
        var methods: UInt
        /// Whether a crash may leave the file behind.
        var isKept: Bool
        /// Whether the file's next sync also syncs its folder.
        var owesFolder: Bool
    }

    private var files: [UInt: OpenFile] = [:]

    // MARK: Files

    private static let journals =
        SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL | 0x4000 /* SQLITE_OPEN_SUPER_JOURNAL */
    private static let kept = SQLITE_OPEN_MAIN_DB | journals

    mutating func didOpen(_ file: UInt, _ path: String, _ flags: Int32, methods: UInt) {
        files[file] = OpenFile(
            path: path,
            methods: methods,
            isKept: !path.isEmpty && flags & Self.kept != 0,
            // SQLite's own VFS, too, syncs the folder once for each time that it opens a journal.
            owesFolder: flags & SQLITE_OPEN_CREATE != 0 && flags & Self.journals != 0
        )
    }

    /// - Returns: The file's own methods.
    mutating func willClose(_ file: UInt) -> UInt {
        files.removeValue(forKey: file)?.methods ?? 0
    }

    func methods(of file: UInt) -> UInt { files[file]?.methods ?? 0 }

    // MARK: Verdicts

    /// Whether an operation on an open file is to fail, and the methods to which it is passed on.
    mutating func verdict(
        on operation: FileOperation,
        _ address: UInt,
        sharesMemory: Bool = false
    ) -> (failure: Int32?, methods: UInt) {
        guard let file = files[address] else { return (nil, 0) }
        if operation == .sync, file.isKept, isLast() { die() }
        return (failure(of: operation, sharesMemory ? file.path + "-shm" : file.path), file.methods)
    }

    /// Whether an operation on a path is to fail.
    mutating func verdict(on operation: FileOperation, _ path: String) -> Int32? { failure(of: operation, path) }

    mutating func verdictOnDeletion(of path: String, syncsFolder: Bool) -> Int32? {
        if isLast() { die() }
        if let failure = failure(of: .delete, path) { return failure }
        unsynced.willDelete(
            path,
            syncsFolder: syncsFolder,
            mayComeBack: manner.losesPower && path.hasSuffix("-journal")
        )
        return nil
    }

    mutating func verdictOnWrite(
        _ address: UInt,
        _ bytes: UnsafeRawPointer?,
        _ count: Int32,
        _ offset: Int64
    ) -> (failure: Int32?, methods: UInt) {
        guard let file = files[address] else { return (nil, 0) }
        if file.isKept {
            if isLast() {
                if manner == .torn { withFile(address) { _ = $1.pointee.xWrite($0, bytes, count / 2, offset) } }
                die()
            }
            noteChange(of: address, file.path, from: offset, count: Int64(count))
        }
        return (failure(of: .write, file.path), file.methods)
    }

    mutating func verdictOnTruncation(_ address: UInt, _ size: Int64) -> (failure: Int32?, methods: UInt) {
        guard let file = files[address] else { return (nil, 0) }
        if file.isKept {
            if isLast() { die() }
            noteChange(of: address, file.path, from: size, count: nil)
        }
        return (failure(of: .truncate, file.path), file.methods)
    }

    private func withFile(
        _ address: UInt,
        _ body: (UnsafeMutablePointer<sqlite3_file>, UnsafePointer<sqlite3_io_methods>) -> Void
    ) {
        guard let file = UnsafeMutablePointer<sqlite3_file>(bitPattern: address),
            let methods = UnsafePointer<sqlite3_io_methods>(bitPattern: methods(of: address))
        else { return }
        body(file, methods)
    }

    // MARK: Failing

    /// The fault that is injected; `nil` if none is.
    var fault: FileFault?
    /// The number of operations of the fault's kind since the fault was chosen.
    var operations = 0
    /// How many of these operations failed.
    var failures = 0
    /// The time that a sync takes in addition.
    var syncDelay = Duration.zero

    private mutating func failure(of operation: FileOperation, _ path: String) -> Int32? {
        guard let fault, fault.operation == operation, fault.files.map({ $0.contains(path) }) ?? true else {
            return nil
        }
        operations += 1
        guard fault.isPersistent ? operations >= fault.number : operations == fault.number else { return nil }
        failures += 1
        return fault.code.rawValue
    }

    // MARK: Killing

    /// The number of operations at which the process could have been killed.
    var count = 0
    var point = 0
    var manner = KillingVFS.Manner.before
    var seed: UInt64 = 0
    private var unsynced = UnsyncedChanges()

    /// Counts an operation. Returns `true` if it is the last one before the process is killed.
    private mutating func isLast() -> Bool {
        count += 1
        return count == point
    }

    mutating func die() -> Never {
        switch manner {
        case .before, .torn: break
        case .powerLoss: unsynced.lose(except: nil)
        case .reordered: unsynced.lose(except: seed)
        }
        if manner.losesPower {
            // The index of a WAL does not survive when the machine loses power.
            for path in Set(files.values.map(\.path)) where !path.isEmpty { unlink(path + "-shm") }
        }
        raise(SIGKILL)
        while true { pause() }
    }

    /// Notes the bytes that a write or truncation is about to overwrite.
    private mutating func noteChange(of address: UInt, _ path: String, from offset: Int64, count: Int64?) {
        guard manner.losesPower else { return }
        var size: sqlite3_int64 = 0
        var bytes: [UInt8] = []
        withFile(address) { file, methods in
            _ = methods.pointee.xFileSize(file, &size)
            bytes = [UInt8](repeating: 0, count: Int(max(0, min(count ?? .max, size - offset))))
            if !bytes.isEmpty { _ = methods.pointee.xRead(file, &bytes, Int32(bytes.count), offset) }
        }
        unsynced.note(path, UnsyncedChanges.Change(offset: offset, count: count, bytes: bytes, size: size))
    }

    mutating func didSync(_ file: UInt) {
        guard let path = files[file]?.path else { return }
        let syncsFolder = files[file]?.owesFolder ?? false
        files[file]?.owesFolder = false
        unsynced.didSync(path, syncsFolder: syncsFolder)
    }
}
