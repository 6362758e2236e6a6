public import SQLiteConnection

/// A fault of the disk: which operation fails, how, and whether it goes on failing.
public struct FileFault: Sendable, Hashable {
    /// The kind of operation that fails.
    public var operation: FileOperation
    /// Which operation of that kind fails, counted from 1.
    public var number: Int
    /// Whether all operations after it fail as well.
    public var isPersistent: Bool
    /// The code that SQLite gets. A write that fails has written its first half, as on a full disk. If opening a file
    /// fails with `.readOnly`, the file is opened for reading only, as a file that may not be written.
    public var code: ResultCode
    /// The paths of the files that can fail; `nil` for all files, including those without a name. A WAL's path ends in
    /// `-wal`, its index's path in `-shm`.
    public var files: Set<String>?

    /// Makes a fault.
    ///
    /// - Parameter code: `nil` for the code that SQLite's own VFS reports when such an operation fails.
    public init(
        _ operation: FileOperation,
        number: Int,
        isPersistent: Bool = false,
        code: ResultCode? = nil,
        files: Set<String>? = nil
    ) {
        self.operation = operation
        self.number = number
        self.isPersistent = isPersistent
        self.code = code ?? operation.errorCode
        self.files = files
    }
}

/// Makes a chosen operation on files fail, once or from then on, for tests of how an application copes with a disk that
/// is full or breaks.
///
/// As SQLite's own tests do, let each operation fail in turn, until a run ends without being touched:
///
///     try FailingVFS.register()
///     for number in 1... {
///         try prepareFiles()
///         FailingVFS.fail(FileFault(.write, number: number, code: .full))
///         let result = Result { try runWhatIsTested() }
///         let wasTouched = FailingVFS.failures > 0
///         FailingVFS.clear()
///         try checkWhatIsThere(result)
///         if !wasTouched { break }
///     }
///
/// This is a VFS that passes everything else to the VFS that was SQLite's default before. ``KillingVFS`` is part of the
/// same VFS. Source: <https://www.sqlite.org/testing.html#i_o_error_testing>.
public enum FailingVFS {
    /// Makes this VFS SQLite's default, for all connections that the process opens from now on.
    ///
    /// - Throws: ``RegistrationError`` if SQLite has no default VFS to pass operations to, or refuses.
    public static func register() throws { try InterposedVFS.register() }

    /// Injects a fault from now on, in place of any other fault, and starts counting anew.
    public static func fail(_ fault: FileFault) {
        FaultState.shared.withLock { state in
            state.fault = fault
            state.operations = 0
            state.failures = 0
        }
    }

    /// Makes each sync take this much longer from now on, as on a slow disk.
    public static func slowSyncs(by time: Duration) {
        FaultState.shared.withLock { $0.syncDelay = time }
    }

    /// Lets every operation succeed, and syncs take their own time. The counts stay.
    public static func clear() {
        FaultState.shared.withLock { state in
            state.fault = nil
            state.syncDelay = .zero
        }
    }

    /// The number of operations of the fault's kind since ``fail(_:)``.
    public static var operations: Int { FaultState.shared.withLock { $0.operations } }

    /// How many of these operations failed.
    public static var failures: Int { FaultState.shared.withLock { $0.failures } }
}
