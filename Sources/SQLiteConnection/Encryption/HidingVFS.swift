internal import SQLiteC
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Makes a file look empty, except for its salt, while it is attached.
///
/// ATTACH reads the schema at once, and so needs key and settings before either can be given. Only a file that has
/// nothing to read can first be attached and then get its key. This VFS passes everything to another VFS. While a file
/// is hidden, the file's object has methods that say that the file is empty. Afterwards the object gets its own methods
/// back, and nothing of this VFS is in the way of a read or write.
///
/// Source: <https://www.sqlite.org/vfs.html>.
enum HidingVFS {
    /// The file that is hidden. Only one file is hidden at a time in the process, and only from one thread: other
    /// threads that attached the file before read and write it meanwhile, and the deletion of a journal is what
    /// commits. The addresses are those of structs that SQLite keeps.
    private struct Hidden {
        var path: String
        var thread = ThreadIdentity.current
        var file: UInt = 0
        var methods: UInt = 0

        /// Whether this very thread asks for a path that is the file's path with a suffix.
        func has(_ path: UnsafePointer<CChar>, _ suffix: String = "") -> Bool {
            thread == .current && strcmp(path, self.path + suffix) == 0
        }
    }

    private static let hidden = Mutex<Hidden?>(nil)
    /// Held from `hiding` to the end of `unhide`.
    private static let turn = Mutex(())
    /// The names of the VFSs that have been made, by the addresses of the VFSs that they pass on to.
    private static let names = Mutex<[UInt: String]>([:])
    /// The methods of hidden files, by the files' own methods. They are never freed, since there are only as many as
    /// VFSs.
    private static let hidingMethods = Mutex<[UInt: UInt]>([:])

    /// Runs `body` while the file is hidden from whatever opens it by the VFS of this name.
    ///
    /// - Parameters:
    ///   - path: The file's path as SQLite will spell it.
    ///   - base: The VFS that has the file.
    ///   - body: Attaches the file and gives its key.
    static func hiding(
        _ path: String,
        over base: UnsafeMutablePointer<sqlite3_vfs>,
        _ body: (_ name: String) throws(SQLiteError) -> Void
    ) throws(SQLiteError) {
        let name = try register(over: base)
        try turn.withLock { _ throws(SQLiteError) in
            hidden.withLock { $0 = Hidden(path: path) }
            defer { unhide() }
            try body(name)
        }
    }

    private static func unhide() {
        hidden.withLock { hidden in
            if let it = hidden, let file = UnsafeMutablePointer<sqlite3_file>(bitPattern: it.file) {
                file.pointee.pMethods = UnsafePointer(bitPattern: it.methods)
            }
            hidden = nil
        }
    }

    /// Gives the hidden file its own methods back before it is closed: its object is gone after that.
    private static func unhide(_ file: UnsafeMutablePointer<sqlite3_file>?) -> UnsafePointer<sqlite3_io_methods>? {
        guard let methods = methodsOfHidden(file) else { return nil }
        file?.pointee.pMethods = methods
        hidden.withLock { $0?.file = 0 }
        return methods
    }

    private static func register(over base: UnsafeMutablePointer<sqlite3_vfs>) throws(SQLiteError) -> String {
        try names.withLock { names throws(SQLiteError) in
            if let name = names[UInt(bitPattern: base)] { return name }
            let name = "midstream-hiding-\(names.count)"
            // This is never freed, since SQLite keeps it.
            let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
            vfs.initialize(to: base.pointee)
            vfs.pointee.iVersion = min(base.pointee.iVersion, 2)
            vfs.pointee.pNext = nil
            vfs.pointee.zName = UnsafePointer(strdup(name))
            vfs.pointee.pAppData = UnsafeMutableRawPointer(base)
            vfs.pointee.xOpen = { vfs, path, file, flags, outFlags in
                HidingVFS.open(vfs, path, file, flags, outFlags)
            }
            vfs.pointee.xDelete = { vfs, path, sync in
                // SQLite would take the WAL and the journal of an empty file for leftovers, and delete them.
                if HidingVFS.isSidecarOfHidden(path) { return SQLITE_OK }
                let base = HidingVFS.base(vfs)
                return base?.pointee.xDelete?(base, path, sync) ?? SQLITE_IOERR
            }
            vfs.pointee.xAccess = { vfs, path, flags, result in
                let base = HidingVFS.base(vfs)
                return base?.pointee.xAccess?(base, path, flags, result) ?? SQLITE_IOERR
            }
            vfs.pointee.xFullPathname = { vfs, path, count, result in
                let base = HidingVFS.base(vfs)
                return base?.pointee.xFullPathname?(base, path, count, result) ?? SQLITE_IOERR
            }
            passOnTheRest(vfs)
            guard sqlite3_vfs_register(vfs, 0) == SQLITE_OK else {
                throw SQLiteError(code: .error, message: "SQLite takes no VFS to attach an encrypted file by")
            }
            names[UInt(bitPattern: base)] = name
            return name
        }
    }

    /// Passes on what does not depend on the file. The other VFS finds its own data by the struct with which it is
    /// called.
    private static func passOnTheRest(_ vfs: UnsafeMutablePointer<sqlite3_vfs>) {
        vfs.pointee.xDlOpen = { vfs, path in
            let base = HidingVFS.base(vfs)
            return base?.pointee.xDlOpen?(base, path)
        }
        vfs.pointee.xDlError = { vfs, count, text in
            let base = HidingVFS.base(vfs)
            base?.pointee.xDlError?(base, count, text)
        }
        vfs.pointee.xDlSym = { vfs, handle, symbol in
            let base = HidingVFS.base(vfs)
            return base?.pointee.xDlSym?(base, handle, symbol)
        }
        vfs.pointee.xDlClose = { vfs, handle in
            let base = HidingVFS.base(vfs)
            base?.pointee.xDlClose?(base, handle)
        }
        vfs.pointee.xRandomness = { vfs, count, bytes in
            let base = HidingVFS.base(vfs)
            return base?.pointee.xRandomness?(base, count, bytes) ?? 0
        }
        vfs.pointee.xSleep = { vfs, microseconds in
            let base = HidingVFS.base(vfs)
            return base?.pointee.xSleep?(base, microseconds) ?? 0
        }
        vfs.pointee.xCurrentTime = { vfs, days in
            let base = HidingVFS.base(vfs)
            return base?.pointee.xCurrentTime?(base, days) ?? SQLITE_ERROR
        }
        vfs.pointee.xGetLastError = { vfs, count, text in
            let base = HidingVFS.base(vfs)
            return base?.pointee.xGetLastError?(base, count, text) ?? 0
        }
        if vfs.pointee.xCurrentTimeInt64 != nil {
            vfs.pointee.xCurrentTimeInt64 = { vfs, milliseconds in
                let base = HidingVFS.base(vfs)
                return base?.pointee.xCurrentTimeInt64?(base, milliseconds) ?? SQLITE_ERROR
            }
        }
    }

    private static func base(_ vfs: UnsafeMutablePointer<sqlite3_vfs>?) -> UnsafeMutablePointer<sqlite3_vfs>? {
        vfs?.pointee.pAppData?.assumingMemoryBound(to: sqlite3_vfs.self)
    }

    private static func open(
        _ vfs: UnsafeMutablePointer<sqlite3_vfs>?,
        _ path: UnsafePointer<CChar>?,
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ flags: Int32,
        _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        guard let base = base(vfs), let open = base.pointee.xOpen, let file else { return SQLITE_CANTOPEN }
        let code = open(base, path, file, flags, outFlags)
        guard code == SQLITE_OK, flags & SQLITE_OPEN_MAIN_DB != 0, let path, let methods = file.pointee.pMethods else {
            return code
        }
        hidden.withLock { hidden in
            guard hidden?.has(path) == true, hidden?.file == 0 else { return }
            hidden?.file = UInt(bitPattern: file)
            hidden?.methods = UInt(bitPattern: methods)
            file.pointee.pMethods = hiding(methods)
        }
        return code
    }

    private static func isSidecarOfHidden(_ path: UnsafePointer<CChar>?) -> Bool {
        guard let path else { return false }
        return hidden.withLock { hidden in
            guard let hidden else { return false }
            return hidden.has(path, "-wal") || hidden.has(path, "-journal")
        }
    }

    /// The file's methods, except for those that tell what is in the file.
    private static func hiding(_ methods: UnsafePointer<sqlite3_io_methods>) -> UnsafePointer<sqlite3_io_methods> {
        let known = hidingMethods.withLock { $0[UInt(bitPattern: methods)] }
        if let known, let copy = UnsafePointer<sqlite3_io_methods>(bitPattern: known) { return copy }
        let copy = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        copy.initialize(to: methods.pointee)
        hidingMethods.withLock { $0[UInt(bitPattern: methods)] = UInt(bitPattern: copy) }
        copy.pointee.xClose = { HidingVFS.unhide($0)?.pointee.xClose?($0) ?? SQLITE_IOERR }
        copy.pointee.xFileSize = { _, size in
            size?.pointee = 0
            return SQLITE_OK
        }
        copy.pointee.xRead = { file, bytes, count, offset in
            // SQLCipher reads the salt by this call.
            let saltSize: Int32 = 16
            if offset == 0, count == saltSize, let read = HidingVFS.methodsOfHidden(file)?.pointee.xRead {
                return read(file, bytes, count, offset)
            }
            if let bytes { memset(bytes, 0, Int(count)) }
            return ResultCode.shortRead.rawValue
        }
        return UnsafePointer(copy)
    }

    private static func methodsOfHidden(
        _ file: UnsafeMutablePointer<sqlite3_file>?
    ) -> UnsafePointer<sqlite3_io_methods>? {
        hidden.withLock { hidden in
            guard let hidden, hidden.file == UInt(bitPattern: file) else { return nil }
            return UnsafePointer(bitPattern: hidden.methods)
        }
    }
}
