public import SQLiteConnection

/// A fault of the disk: which operation fails, how, and whether it goes on failing.
public struct FileFault: Sendable, Hashable {
    /// The kind of operation that fails.
    public var operation: FileOperation
    /// Which one, counted from 1.
    public var number: Int
    /// Whether all after it fail as well.
    public var isPersistent: Bool
    /// What SQLite is told. A write that fails has written its first half, as on a disk that is full. To open a file fails with
    /// `.readOnly` as it does where it may not be written: it is opened to be read.
    public var code: ResultCode
    /// The paths of the files that are concerned, a WAL's ending in `-wal`, its index's in `-shm`; `nil` for all, those
    /// without a name included.
    public var files: Set<String>?

    /// Makes a fault.
    ///
    /// - Parameter code: `nil` for what SQLite's own VFS reports when such an operation fails.
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

/// Has a chosen operation on files fail, once or from then on, for tests of how an application copes with a disk that
/// is full or breaks.
///
/// As SQLite's own tests do, let each operation fail in turn until a run comes to its end untouched:
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
/// It is a VFS that passes everything else to the one that was SQLite's default, the same as ``KillingVFS``. Source:
/// <https://www.sqlite.org/testing.html#i_o_error_testing>.
public enum FailingVFS {
    /// Makes it SQLite's default, for all connections that the process opens from now on.
    ///
    /// - Throws: ``RegistrationError`` when SQLite has no default to pass on to, or refuses.
    public static func register() throws { try InterposedVFS.register() }

    /// Injects a fault from now on, in the place of another, and starts counting anew.
    public static func fail(_ fault: FileFault) {
        FaultState.shared.withLock { state in
            state.fault = fault
            state.operations = 0
            state.failures = 0
        }
    }

    /// Has each sync take that much longer from now on, as on a slow disk.
    public static func slowSyncs(by time: Duration) {
        FaultState.shared.withLock { $0.syncDelay = time }
    }

    /// Lets everything succeed, and syncs be as fast as they are. What was counted stays.
    public static func clear() {
        FaultState.shared.withLock { state in
            state.fault = nil
            state.syncDelay = .zero
        }
    }

    /// The operations of the fault's kind since ``fail(_:)``.
    public static var operations: Int { FaultState.shared.withLock { $0.operations } }

    /// How many of them failed.
    public static var failures: Int { FaultState.shared.withLock { $0.failures } }
}
