internal import SQLiteC

extension Connection {
    /// Registers a module for `CREATE VIRTUAL TABLE … USING name(…)`.
    ///
    /// - Parameters:
    ///   - name: The module's name.
    ///   - module: Makes the tables.
    ///   - isReadOnly: Whether SQLite itself refuses writes.
    public func createModule(_ name: String, _ module: VirtualTableModule, isReadOnly: Bool = false) throws(SQLiteError)
    {
        try checkOpen()
        let code = sqlite3_create_module_v2(
            db,
            name,
            isReadOnly ? readOnlyMethods : moduleMethods,
            Unmanaged.passRetained(module).toOpaque(),
            { data in
                if let data { Unmanaged<VirtualTableModule>.fromOpaque(data).release() }
            }
        )
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }
}

/// The callbacks of every module, with the writing callbacks and without. SQLite keeps the pointer for as long as a
/// connection has the module, so the callbacks are allocated once for the process and never changed afterwards.
nonisolated(unsafe) private let moduleMethods = makeMethods(isReadOnly: false)
nonisolated(unsafe) private let readOnlyMethods = makeMethods(isReadOnly: true)

private func makeMethods(isReadOnly: Bool) -> UnsafePointer<sqlite3_module> {
    let methods = UnsafeMutablePointer<sqlite3_module>.allocate(capacity: 1)
    methods.initialize(to: sqlite3_module())
    methods.pointee.xCreate = connect
    methods.pointee.xConnect = connect
    methods.pointee.xBestIndex = bestIndex
    methods.pointee.xDisconnect = disconnect
    methods.pointee.xDestroy = destroy
    methods.pointee.xRename = rename
    methods.pointee.xOpen = open
    methods.pointee.xClose = close
    methods.pointee.xFilter = filter
    methods.pointee.xNext = next
    methods.pointee.xEof = isAtEnd
    methods.pointee.xColumn = column
    methods.pointee.xRowid = rowID
    if !isReadOnly {
        methods.pointee.xUpdate = update
        methods.pointee.xBegin = begin
    }
    return UnsafePointer(methods)
}

private func code(of error: any Error) -> (Int32, String) {
    if let error = error as? SQLiteError { return (error.code.failure, error.message) }
    return (SQLITE_ERROR, "\(error)")
}

/// Hands an error to SQLite, which frees the message.
private func report(_ error: any Error, on table: UnsafeMutablePointer<sqlite3_vtab>?) -> Int32 {
    let (code, message) = code(of: error)
    if let table {
        sqlite3_free(table.pointee.zErrMsg)
        table.pointee.zErrMsg = message.isEmpty ? nil : midstream_strdup(message)
    }
    return code
}

private func withTable(
    _ table: UnsafeMutablePointer<sqlite3_vtab>?,
    _ body: (VirtualTable) throws -> Void
) -> Int32 {
    guard let table else { return SQLITE_MISUSE }
    let own = UnsafeMutableRawPointer(table).assumingMemoryBound(to: midstream_vtab.self)
    guard let object = own.pointee.object else { return SQLITE_MISUSE }
    return Unmanaged<VirtualTable>.fromOpaque(object)._withUnsafeGuaranteedRef { swiftTable in
        do {
            try body(swiftTable)
            return SQLITE_OK
        } catch {
            return report(error, on: table)
        }
    }
}

@inline(__always)
private func withCursor(
    _ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?,
    _ body: (VirtualTableCursor) throws -> Void
) -> Int32 {
    guard let cursor else { return SQLITE_MISUSE }
    let own = UnsafeMutableRawPointer(cursor).assumingMemoryBound(to: midstream_vtab_cursor.self)
    return Unmanaged<VirtualTableCursor>.fromOpaque(own.pointee.object)._withUnsafeGuaranteedRef { swiftCursor in
        do {
            try body(swiftCursor)
            return SQLITE_OK
        } catch {
            return report(error, on: cursor.pointee.pVtab)
        }
    }
}

private func connect(
    _ db: OpaquePointer?,
    _ data: UnsafeMutableRawPointer?,
    _ count: Int32,
    _ texts: UnsafePointer<UnsafePointer<CChar>?>?,
    _ result: UnsafeMutablePointer<UnsafeMutablePointer<sqlite3_vtab>?>?,
    _ message: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> Int32 {
    guard let data, let texts, let result, count >= 3 else { return SQLITE_MISUSE }
    let module = Unmanaged<VirtualTableModule>.fromOpaque(data).takeUnretainedValue()
    let arguments = (0..<Int(count)).map { texts[$0].map { String(cString: $0) } ?? "" }
    do {
        let (declaration, table) = try module.connect(name: arguments[2], arguments: Array(arguments.dropFirst(3)))
        let declared = sqlite3_declare_vtab(db, declaration)
        guard declared == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: declared, sql: declaration) }
        let own = UnsafeMutablePointer<midstream_vtab>.allocate(capacity: 1)
        own.initialize(to: midstream_vtab())
        own.pointee.object = Unmanaged.passRetained(table).toOpaque()
        midstream_vtab_trust(db)
        if table.reportsConstraints { midstream_vtab_support_constraints(db) }
        result.pointee = UnsafeMutableRawPointer(own).assumingMemoryBound(to: sqlite3_vtab.self)
        return SQLITE_OK
    } catch {
        let (code, text) = code(of: error)
        message?.pointee = midstream_strdup(text)
        return code
    }
}

private func bestIndex(
    _ table: UnsafeMutablePointer<sqlite3_vtab>?,
    _ info: UnsafeMutablePointer<sqlite3_index_info>?
) -> Int32 {
    guard let info else { return SQLITE_MISUSE }
    return withTable(table) { try $0.bestIndex(IndexInfo(pointer: info)) }
}

private func disconnect(_ table: UnsafeMutablePointer<sqlite3_vtab>?) -> Int32 {
    guard let table else { return SQLITE_OK }
    let own = UnsafeMutableRawPointer(table).assumingMemoryBound(to: midstream_vtab.self)
    let swiftTable = Unmanaged<VirtualTable>.fromOpaque(own.pointee.object)
    swiftTable.takeUnretainedValue().disconnect()
    swiftTable.release()
    sqlite3_free(table.pointee.zErrMsg)
    own.deinitialize(count: 1)
    own.deallocate()
    return SQLITE_OK
}

private func destroy(_ table: UnsafeMutablePointer<sqlite3_vtab>?) -> Int32 {
    let code = withTable(table) { try $0.destroy() }
    return code == SQLITE_OK ? disconnect(table) : code
}

private func rename(_ table: UnsafeMutablePointer<sqlite3_vtab>?, _ name: UnsafePointer<CChar>?) -> Int32 {
    withTable(table) { try $0.rename() }
}

private func begin(_ table: UnsafeMutablePointer<sqlite3_vtab>?) -> Int32 {
    withTable(table) { try $0.begin() }
}

private func open(
    _ table: UnsafeMutablePointer<sqlite3_vtab>?,
    _ result: UnsafeMutablePointer<UnsafeMutablePointer<sqlite3_vtab_cursor>?>?
) -> Int32 {
    withTable(table) { swiftTable in
        let cursor = try swiftTable.open()
        let own = UnsafeMutablePointer<midstream_vtab_cursor>.allocate(capacity: 1)
        own.initialize(to: midstream_vtab_cursor())
        own.pointee.object = Unmanaged.passRetained(cursor).toOpaque()
        result?.pointee = UnsafeMutableRawPointer(own).assumingMemoryBound(to: sqlite3_vtab_cursor.self)
    }
}

private func close(_ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?) -> Int32 {
    guard let cursor else { return SQLITE_OK }
    let own = UnsafeMutableRawPointer(cursor).assumingMemoryBound(to: midstream_vtab_cursor.self)
    let swiftCursor = Unmanaged<VirtualTableCursor>.fromOpaque(own.pointee.object)
    swiftCursor.takeUnretainedValue().close()
    swiftCursor.release()
    own.deinitialize(count: 1)
    own.deallocate()
    return SQLITE_OK
}

private func filter(
    _ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?,
    _ plan: Int32,
    _: UnsafePointer<CChar>?,
    _ count: Int32,
    _ values: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
    withCursor(cursor) {
        try $0.filter(plan: Int(plan), arguments: ValueReferences(pointer: values, count: Int(count)))
    }
}

private func next(_ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?) -> Int32 {
    withCursor(cursor) { try $0.next() }
}

private func isAtEnd(_ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?) -> Int32 {
    guard let cursor else { return 1 }
    let own = UnsafeMutableRawPointer(cursor).assumingMemoryBound(to: midstream_vtab_cursor.self)
    return Unmanaged<VirtualTableCursor>.fromOpaque(own.pointee.object)._withUnsafeGuaranteedRef { $0.isAtEnd ? 1 : 0 }
}

private func column(
    _ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?,
    _ context: OpaquePointer?,
    _ index: Int32
) -> Int32 {
    guard let context else { return SQLITE_MISUSE }
    return withCursor(cursor) { try $0.column(Int(index), to: ResultContext(pointer: context)) }
}

private func rowID(_ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?, _ result: UnsafeMutablePointer<Int64>?)
    -> Int32
{
    withCursor(cursor) { result?.pointee = try $0.rowID() }
}

private func update(
    _ table: UnsafeMutablePointer<sqlite3_vtab>?,
    _ count: Int32,
    _ values: UnsafeMutablePointer<OpaquePointer?>?,
    _ rowID: UnsafeMutablePointer<Int64>?
) -> Int32 {
    withTable(table) {
        if let id = try $0.update(ValueReferences(pointer: values, count: Int(count))) { rowID?.pointee = id }
    }
}
