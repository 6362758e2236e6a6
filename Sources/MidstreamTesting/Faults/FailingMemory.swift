internal import SQLiteC
internal import Synchronization

/// Makes a chosen allocation of SQLite fail, once or from then on, for tests of how an application copes without
/// memory.
///
///     try FailingMemory.register()                 // before the process uses SQLite
///     FailingMemory.fail(at: 100)
///     let result = Result { try runWhatIsTested() }
///     FailingMemory.clear()
///
/// SQLite goes on if it does not get memory that it can do without, so a run may succeed although an allocation failed.
/// Swift's own allocations are not affected. Source: <https://www.sqlite.org/testing.html#out_of_memory_testing>.
public enum FailingMemory {
    /// Makes SQLite allocate through this, for as long as the process lives. No connection may have been opened before.
    ///
    /// This switches off the memory that SQLite keeps for small objects of a connection (lookaside), so that each
    /// object counts.
    ///
    /// - Throws: ``RegistrationError`` if SQLite refuses.
    public static func register() throws {
        guard !isRegistered.exchange(true, ordering: .sequentiallyConsistent) else { return }
        sqlite3_shutdown()
        guard midstream_get_memory_methods(original) == SQLITE_OK else { throw RegistrationError() }
        var methods = original.pointee
        methods.xMalloc = { count in
            FailingMemory.isRefused() ? nil : original.pointee.xMalloc(count)
        }
        methods.xRealloc = { memory, count in
            FailingMemory.isRefused() ? nil : original.pointee.xRealloc(memory, count)
        }
        guard midstream_set_memory_methods(&methods) == SQLITE_OK else { throw RegistrationError() }
    }

    /// Makes the `number`-th allocation from now fail, 1 being the next one, and starts counting anew.
    public static func fail(at number: Int, persistently: Bool = false) {
        point.store(0, ordering: .sequentiallyConsistent)
        count.store(0, ordering: .sequentiallyConsistent)
        refused.store(0, ordering: .sequentiallyConsistent)
        persists.store(persistently, ordering: .sequentiallyConsistent)
        point.store(number, ordering: .sequentiallyConsistent)
    }

    /// Lets every allocation succeed. The counts stay.
    public static func clear() { point.store(0, ordering: .sequentiallyConsistent) }

    /// The number of allocations since ``fail(at:persistently:)``, until ``clear()``.
    public static var allocations: Int { count.load(ordering: .sequentiallyConsistent) }

    /// How many of these allocations failed.
    public static var failures: Int { refused.load(ordering: .sequentiallyConsistent) }

    private static func isRefused() -> Bool {
        let wanted = point.load(ordering: .relaxed)
        guard wanted > 0 else { return false }
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        guard persists.load(ordering: .relaxed) ? number >= wanted : number == wanted else { return false }
        refused.wrappingAdd(1, ordering: .relaxed)
        return true
    }

    private static let isRegistered = Atomic(false)
    private static let point = Atomic(0)
    private static let count = Atomic(0)
    private static let refused = Atomic(0)
    private static let persists = Atomic(false)
}

/// SQLite's own functions. They are written once, before SQLite is used, and are never freed, since SQLite goes on
/// calling them.
nonisolated(unsafe) private let original: UnsafeMutablePointer<sqlite3_mem_methods> = {
    let methods = UnsafeMutablePointer<sqlite3_mem_methods>.allocate(capacity: 1)
    methods.initialize(to: sqlite3_mem_methods())
    return methods
}()
