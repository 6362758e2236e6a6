import Midstream
import MidstreamTesting
import SQLiteConnection

/// What fails in a run of a sweep.
enum FaultKind: Sendable, Hashable, CustomStringConvertible {
    /// The operation fails with its own error.
    case file(FileOperation)
    /// The disk is full.
    case full
    /// Another process has the lock.
    case busy(FileOperation)
    /// A file that may not be written is opened for reading.
    case readOnly
    /// The operation is not permitted.
    case denied(FileOperation)
    /// An allocation of SQLite fails.
    case memory

    static let allCases: [FaultKind] =
        FileOperation.allCases.map { .file($0) } + [
            .full, .busy(.lock), .busy(.lockSharedMemory), .memory, .readOnly, .denied(.open), .denied(.write),
            .denied(.lock),
        ]

    var description: String {
        switch self {
        case .file(let operation): "\(operation)"
        case .full: "full"
        case .busy(let operation): "\(operation) busy"
        case .readOnly: "read-only"
        case .denied(let operation): "\(operation) denied"
        case .memory: "memory"
        }
    }

    /// The errors by which SQLite may report the fault.
    var errors: [ResultCode] {
        switch self {
        // Without the WAL's index or its file, a database cannot be opened.
        case .file: [.ioError, .cannotOpen]
        case .full: [.full]
        case .busy: [.busy]
        case .readOnly: [.readOnly, .cannotOpen]
        case .denied: [.permission, .readOnly, .cannotOpen]
        case .memory: [.outOfMemory]
        }
    }

    /// Whether the fault strikes other operations if commits are synced.
    var dependsOnSyncs: Bool {
        switch self {
        case .file(let operation): [.write, .sync, .truncate, .delete].contains(operation)
        case .full, .denied(.write): true
        case .busy, .memory, .readOnly, .denied: false
        }
    }

    func start(_ number: Int, isPersistent: Bool, files: Set<String>?) {
        switch self {
        case .memory:
            FailingMemory.fail(at: number, persistently: isPersistent)
        case .file(let operation):
            FailingVFS.fail(FileFault(operation, number: number, isPersistent: isPersistent, files: files))
        case .full:
            FailingVFS.fail(FileFault(.write, number: number, isPersistent: isPersistent, code: .full, files: files))
        case .busy(let operation):
            FailingVFS.fail(FileFault(operation, number: number, isPersistent: isPersistent, code: .busy, files: files))
        case .readOnly:
            FailingVFS.fail(FileFault(.open, number: number, isPersistent: isPersistent, code: .readOnly, files: files))
        case .denied(let operation):
            let code: ResultCode = operation == .write ? .readOnly : .permission
            FailingVFS.fail(FileFault(operation, number: number, isPersistent: isPersistent, code: code, files: files))
        }
    }

    func end() {
        FailingVFS.clear()
        FailingMemory.clear()
    }

    /// How often the fault has struck since it was started.
    var failures: Int { self == .memory ? FailingMemory.failures : FailingVFS.failures }
    /// How often the fault could have struck.
    var operations: Int { self == .memory ? FailingMemory.allocations : FailingVFS.operations }

    /// How a fault lasts, and what the application does about it.
    enum Course: CaseIterable, Sendable {
        /// It strikes once; the application goes on with the same `Database`.
        case once
        /// It strikes once; the application opens the file anew.
        case onceThenReopen
        /// It lasts until the first errors have been seen.
        case lasting
        case lastingThenReopen
        /// It lasts, and strikes only the source's files.
        case lastingInSource

        var isPersistent: Bool { self != .once && self != .onceThenReopen }
        var reopens: Bool { self == .onceThenReopen || self == .lastingThenReopen }
    }

    var courses: [Course] {
        switch self {
        // SQLite would wait for each lock of a lasting fault.
        case .busy: [.once, .onceThenReopen]
        case .memory: [.once, .onceThenReopen, .lasting, .lastingThenReopen]
        // A file that is open for reading stays so.
        case .readOnly: [.onceThenReopen, .lastingThenReopen, .lastingInSource]
        default: Course.allCases
        }
    }
}
