internal import SQLiteC
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// A VFS between SQLite and its default VFS. It asks ``FaultState`` before it passes an operation on.
///
/// Each file gets a copy of its own table of methods, with these functions in it.
enum InterposedVFS {
    /// Makes this VFS SQLite's default, for all connections that the process opens from now on.
    static func register() throws {
        guard defaultAddress.withLock({ $0 }) == 0 else { return }
        guard let original = sqlite3_vfs_find(nil) else { throw RegistrationError() }
        defaultAddress.withLock { $0 = UInt(bitPattern: original) }
        // This is never freed, since SQLite keeps it.
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        vfs.initialize(to: original.pointee)
        vfs.pointee.pNext = nil
        vfs.pointee.zName = UnsafePointer(strdup("midstream-faults"))
        vfs.pointee.xOpen = openFile
        vfs.pointee.xDelete = deleteFile
        vfs.pointee.xAccess = accessFile
        guard sqlite3_vfs_register(vfs, 1) == SQLITE_OK else { throw RegistrationError() }
    }

    /// The address of the VFS that was the default before. SQLite never frees that VFS.
    fileprivate static let defaultAddress = Mutex<UInt>(0)

    fileprivate static var base: UnsafeMutablePointer<sqlite3_vfs>? {
        UnsafeMutablePointer(bitPattern: defaultAddress.withLock { $0 })
    }

    /// The copies of tables of methods, by the addresses of the originals.
    private static let copies = Mutex<[UInt: UInt]>([:])

    fileprivate static func copy(of original: UnsafePointer<sqlite3_io_methods>) -> UnsafePointer<sqlite3_io_methods>? {
        let address = copies.withLock { copies in
            if let known = copies[UInt(bitPattern: original)] { return known }
            // This is never freed, since files refer to it.
            let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
            methods.initialize(to: original.pointee)
            methods.pointee.xClose = closeFile
            methods.pointee.xRead = readFile
            methods.pointee.xWrite = writeFile
            methods.pointee.xTruncate = truncateFile
            methods.pointee.xSync = syncFile
            methods.pointee.xFileSize = sizeFile
            methods.pointee.xLock = lockFile
            methods.pointee.xCheckReservedLock = checkLockOfFile
            if original.pointee.iVersion >= 2, original.pointee.xShmMap != nil {
                methods.pointee.xShmMap = mapSharedMemory
                methods.pointee.xShmLock = lockSharedMemory
            }
            copies[UInt(bitPattern: original)] = UInt(bitPattern: methods)
            return UInt(bitPattern: methods)
        }
        return UnsafePointer(bitPattern: address)
    }
}

/// SQLite's default VFS, or its memory functions, could not be replaced.
public struct RegistrationError: Error {}

// MARK: The functions that SQLite calls

private typealias File = UnsafeMutablePointer<sqlite3_file>
private typealias Methods = UnsafePointer<sqlite3_io_methods>

/// Passes an operation on to the file's own methods, unless it is to fail.
private func passing(
    _ operation: FileOperation,
    _ file: File?,
    sharesMemory: Bool = false,
    _ body: (File, Methods) -> Int32
) -> Int32 {
    guard let file else { return SQLITE_MISUSE }
    let address = UInt(bitPattern: file)
    let (failure, methods) = FaultState.shared.withLock {
        $0.verdict(on: operation, address, sharesMemory: sharesMemory)
    }
    guard let methods = Methods(bitPattern: methods) else { return SQLITE_MISUSE }
    return failure ?? body(file, methods)
}

private let openFile:
    @convention(c) (
        UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, UnsafeMutablePointer<sqlite3_file>?, Int32,
        UnsafeMutablePointer<Int32>?
    ) -> Int32 = { _, name, file, flags, outFlags in
        guard let vfs = InterposedVFS.base, let file else { return SQLITE_MISUSE }
        let path = name.map { String(cString: $0) } ?? ""
        var flags = flags
        if let failure = FaultState.shared.withLock({ $0.verdict(on: .open, path) }) {
            guard failure == SQLITE_READONLY else {
                file.pointee.pMethods = nil
                return failure
            }
            flags = flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_READONLY
        }
        let code = vfs.pointee.xOpen(vfs, name, file, flags, outFlags)
        guard code == SQLITE_OK, let methods = file.pointee.pMethods else { return code }
        file.pointee.pMethods = InterposedVFS.copy(of: methods)
        let (address, methodsAddress) = (UInt(bitPattern: file), UInt(bitPattern: methods))
        FaultState.shared.withLock { $0.didOpen(address, path, flags, methods: methodsAddress) }
        return code
    }

private let deleteFile: @convention(c) (UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, Int32) -> Int32 = {
    _,
    name,
    syncsFolder in
    guard let vfs = InterposedVFS.base, let name else { return SQLITE_MISUSE }
    let path = String(cString: name)
    let failure = FaultState.shared.withLock { $0.verdictOnDeletion(of: path, syncsFolder: syncsFolder != 0) }
    if let failure { return failure }
    return vfs.pointee.xDelete(vfs, name, syncsFolder)
}

private let accessFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, Int32, UnsafeMutablePointer<Int32>?) ->
        Int32 = { _, name, flags, result in
            guard let vfs = InterposedVFS.base, let name else { return SQLITE_MISUSE }
            let path = String(cString: name)
            if let failure = FaultState.shared.withLock({ $0.verdict(on: .access, path) }) { return failure }
            return vfs.pointee.xAccess(vfs, name, flags, result)
        }

private let closeFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?) -> Int32 = { file in
    guard let file else { return SQLITE_MISUSE }
    let address = UInt(bitPattern: file)
    guard let methods = Methods(bitPattern: FaultState.shared.withLock { $0.willClose(address) }) else {
        return SQLITE_MISUSE
    }
    return methods.pointee.xClose(file)
}

private let readFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeMutableRawPointer?, Int32, sqlite3_int64) -> Int32 = {
        file,
        bytes,
        count,
        offset in
        passing(.read, file) { $1.pointee.xRead($0, bytes, count, offset) }
    }

private let writeFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeRawPointer?, Int32, sqlite3_int64) -> Int32 = {
        file,
        bytes,
        count,
        offset in
        guard let file else { return SQLITE_MISUSE }
        let address = UInt(bitPattern: file)
        // The address is passed as a number, since pointers cannot be taken into the lock.
        let bytesAddress = UInt(bitPattern: bytes)
        let (failure, methods) = FaultState.shared.withLock { state in
            state.verdictOnWrite(address, UnsafeRawPointer(bitPattern: bytesAddress), count, offset)
        }
        guard let methods = Methods(bitPattern: methods) else { return SQLITE_MISUSE }
        guard let failure else { return methods.pointee.xWrite(file, bytes, count, offset) }
        _ = methods.pointee.xWrite(file, bytes, count / 2, offset)
        return failure
    }

private let truncateFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, sqlite3_int64) -> Int32 = { file, size in
    guard let file else { return SQLITE_MISUSE }
    let address = UInt(bitPattern: file)
    let (failure, methods) = FaultState.shared.withLock { $0.verdictOnTruncation(address, size) }
    guard let methods = Methods(bitPattern: methods) else { return SQLITE_MISUSE }
    return failure ?? methods.pointee.xTruncate(file, size)
}

private let syncFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32 = { file, flags in
    passing(.sync, file) { file, methods in
        let code = methods.pointee.xSync(file, flags)
        let delay = FaultState.shared.withLock { $0.syncDelay }
        if delay > .zero { usleep(UInt32(delay / .microseconds(1))) }
        let address = UInt(bitPattern: file)
        if code == SQLITE_OK { FaultState.shared.withLock { $0.didSync(address) } }
        return code
    }
}

private let sizeFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeMutablePointer<sqlite3_int64>?) -> Int32 =
        { file, size in passing(.fileSize, file) { $1.pointee.xFileSize($0, size) } }

private let lockFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32 = { file, level in
    passing(.lock, file) { $1.pointee.xLock($0, level) }
}

private let checkLockOfFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeMutablePointer<Int32>?) -> Int32 = { file, result in
        passing(.lock, file) { $1.pointee.xCheckReservedLock($0, result) }
    }

private let mapSharedMemory:
    @convention(c) (
        UnsafeMutablePointer<sqlite3_file>?, Int32, Int32, Int32,
        UnsafeMutablePointer<UnsafeMutableRawPointer?>?
    ) -> Int32 = { file, region, size, extends, result in
        passing(.mapSharedMemory, file, sharesMemory: true) {
            $1.pointee.xShmMap($0, region, size, extends, result)
        }
    }

private let lockSharedMemory: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32, Int32, Int32) -> Int32 = {
    file,
    offset,
    count,
    flags in
    guard flags & SQLITE_SHM_UNLOCK == 0 else {
        guard let file else { return SQLITE_MISUSE }
        let address = UInt(bitPattern: file)
        let methods = Methods(bitPattern: FaultState.shared.withLock { $0.methods(of: address) })
        return methods?.pointee.xShmLock(file, offset, count, flags) ?? SQLITE_MISUSE
    }
    return passing(.lockSharedMemory, file, sharesMemory: true) { $1.pointee.xShmLock($0, offset, count, flags) }
}
