internal import SQLiteC
internal import Synchronization

// The functions that SQLite calls. Those of files stand in a copy of the original's table of methods, followed by the
// address of the original, so that nothing has to be looked up.

private let countedFiles =
    SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL | 0x4000 /* SQLITE_OPEN_SUPER_JOURNAL */

/// The copies of tables of methods, by the originals' addresses.
private let copies = Mutex<[UInt: UInt]>([:])

private func copy(of original: UnsafePointer<sqlite3_io_methods>) -> UnsafePointer<sqlite3_io_methods>? {
    let address = copies.withLock { copies in
        if let known = copies[UInt(bitPattern: original)] { return known }
        let size = MemoryLayout<sqlite3_io_methods>.stride
        // Never freed: files refer to it.
        let memory = UnsafeMutableRawPointer.allocate(byteCount: size + MemoryLayout<UInt>.stride, alignment: 16)
        let methods = memory.initializeMemory(as: sqlite3_io_methods.self, to: original.pointee)
        memory.storeBytes(of: UInt(bitPattern: original), toByteOffset: size, as: UInt.self)
        methods.pointee.xClose = closeFile
        methods.pointee.xWrite = writeFile
        methods.pointee.xTruncate = truncateFile
        methods.pointee.xSync = syncFile
        copies[UInt(bitPattern: original)] = UInt(bitPattern: memory)
        return UInt(bitPattern: memory)
    }
    return UnsafePointer(bitPattern: address)
}

private func original(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafePointer<sqlite3_io_methods> {
    let copy = UnsafeRawPointer(file.pointee.pMethods!)
    let address = copy.load(fromByteOffset: MemoryLayout<sqlite3_io_methods>.stride, as: UInt.self)
    return UnsafePointer(bitPattern: address)!
}

let openFile:
    @convention(c) (
        UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, UnsafeMutablePointer<sqlite3_file>?, Int32,
        UnsafeMutablePointer<Int32>?
    ) -> Int32 = { _, name, file, flags, outFlags in
        guard let vfs = Original.vfs, let file else { return SQLITE_MISUSE }
        let code = vfs.pointee.xOpen(vfs, name, file, flags, outFlags)
        guard code == SQLITE_OK, let name, flags & countedFiles != 0, let methods = file.pointee.pMethods else {
            return code
        }
        file.pointee.pMethods = copy(of: methods)
        FaultState.shared.withLock { $0.paths[UInt(bitPattern: file)] = String(cString: name) }
        return code
    }

let deleteFile: @convention(c) (UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, Int32) -> Int32 = {
    _,
    name,
    syncsFolder in
    guard let vfs = Original.vfs, let name else { return SQLITE_MISUSE }
    FaultState.shared.withLock { state in
        if state.isLast() { state.die() }
        state.didDelete(String(cString: name))
    }
    return vfs.pointee.xDelete(vfs, name, syncsFolder)
}

private let closeFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?) -> Int32 = { file in
    guard let file else { return SQLITE_MISUSE }
    _ = FaultState.shared.withLock { $0.paths.removeValue(forKey: UInt(bitPattern: file)) }
    return original(file).pointee.xClose(file)
}

private let writeFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeRawPointer?, Int32, sqlite3_int64) -> Int32 = {
        file,
        bytes,
        count,
        offset in
        guard let file else { return SQLITE_MISUSE }
        let methods = original(file)
        // The bytes' address as a number, since pointers cannot be taken into the lock.
        let (fileAddress, bytesAddress) = (UInt(bitPattern: file), UInt(bitPattern: bytes))
        let methodsAddress = UInt(bitPattern: methods)
        FaultState.shared.withLock { state in
            guard let file = UnsafeMutablePointer<sqlite3_file>(bitPattern: fileAddress),
                let methods = UnsafePointer<sqlite3_io_methods>(bitPattern: methodsAddress)
            else { return }
            if state.isLast() {
                if state.manner == .torn {
                    _ = methods.pointee.xWrite(file, UnsafeRawPointer(bitPattern: bytesAddress), count / 2, offset)
                }
                state.die()
            }
            state.willChange(file, methods, from: offset, count: Int64(count))
        }
        return methods.pointee.xWrite(file, bytes, count, offset)
    }

private let truncateFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, sqlite3_int64) -> Int32 = { file, size in
    guard let file else { return SQLITE_MISUSE }
    let methods = original(file)
    let (fileAddress, methodsAddress) = (UInt(bitPattern: file), UInt(bitPattern: methods))
    FaultState.shared.withLock { state in
        if state.isLast() { state.die() }
        if let file = UnsafeMutablePointer<sqlite3_file>(bitPattern: fileAddress),
            let methods = UnsafePointer<sqlite3_io_methods>(bitPattern: methodsAddress)
        {
            state.willChange(file, methods, from: size, count: .max)
        }
    }
    return methods.pointee.xTruncate(file, size)
}

private let syncFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32 = { file, flags in
    guard let file else { return SQLITE_MISUSE }
    FaultState.shared.withLock { if $0.isLast() { $0.die() } }
    let code = original(file).pointee.xSync(file, flags)
    let address = UInt(bitPattern: file)
    if code == SQLITE_OK {
        FaultState.shared.withLock { state in
            if let file = UnsafeMutablePointer<sqlite3_file>(bitPattern: address) { state.didSync(file) }
        }
    }
    return code
}
