public import SQLiteConnection

/// The operations of a VFS in which faults are injected.
///
/// Unlocking and closing are not among them, since SQLite relies on their success.
public enum FileOperation: String, Sendable, Hashable, Codable, CaseIterable {
    /// A file is opened.
    case open
    /// Bytes are read.
    case read
    /// Bytes are written.
    case write
    /// A file is synced.
    case sync
    /// A file is truncated, as a journal is after a commit.
    case truncate
    /// A file is deleted.
    case delete
    /// A lock of the database file is taken, or asked about.
    case lock
    /// The memory that processes share, which is a WAL's index, is mapped.
    case mapSharedMemory
    /// A lock of the shared memory is taken, as each transaction in WAL mode does.
    case lockSharedMemory
    /// The size of a file is asked for.
    case fileSize
    /// SQLite asks whether a file exists.
    case access

    /// The code that SQLite's own VFS reports when the operating system refuses the operation.
    public var errorCode: ResultCode {
        switch self {
        case .open: .cannotOpen
        case .read: .ioError(1)
        case .write: .ioError(3)
        case .sync: .ioError(4)
        case .truncate: .ioError(6)
        case .fileSize: .ioError(7)
        case .delete: .ioError(10)
        case .access: .ioError(13)
        case .lock: .ioError(15)
        case .lockSharedMemory: .ioError(20)
        case .mapSharedMemory: .ioError(21)
        }
    }
}

extension ResultCode {
    /// Source: <https://www.sqlite.org/rescode.html#extrc>.
    fileprivate static func ioError(_ number: Int32) -> ResultCode {
        ResultCode(rawValue: ResultCode.ioError.rawValue | number << 8)
    }
}
