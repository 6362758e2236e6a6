#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

internal import Midstream
internal import SQLiteC
internal import SQLiteConnection

// A loadable extension of SQLite, so that a process that is not written in Swift reads and writes moving tables whole: the `sqlite3` shell,
// Python, PHP. A Swift process, or the `midstream` command, has begun the migration.
//
//   .load ./libMidstreamExtension                 in the shell; connection.load_extension("…") in Python
//   SELECT * FROM messages;                       all rows
//   SELECT midstream_step(100);                   moves rows for 100 ms; 1 if nothing is left to do
//   SELECT midstream_status();                    how far each table is, as JSON
//   SELECT midstream_refresh();                   when a migration has begun or ended; the number of moving tables

/// The entry point. SQLite finds it by the name of the file: `libMidstreamExtension.so`.
///
/// Source: <https://www.sqlite.org/loadext.html>.
@_cdecl("sqlite3_midstreamextension_init")
public func initialize(
    _ handle: OpaquePointer?,
    _ message: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
    _ routines: UnsafePointer<UnsafeRawPointer?>?
) -> CInt {
    stayLoaded()
    do {
        guard let handle, let routines else { throw SQLiteError(code: .misuse, message: "SQLite passed no connection") }
        // Calls of another copy of SQLite would write into the connection as they please.
        let own: @convention(c) (OpaquePointer?, CInt) -> UnsafeMutableRawPointer? = sqlite3_aggregate_context
        guard routines.pointee == unsafeBitCast(own, to: UnsafeRawPointer.self) else {
            throw SQLiteError(
                code: .error,
                message:
                    "this program has another copy of SQLite than the library that MidstreamExtension is linked with (\(libraryName)): use a "
                    + "program that has SQLite from that library, or build MidstreamExtension with the program's"
            )
        }
        try ExtendedConnection(handle).defineFunctions()
        return loadedForGood
    } catch {
        message?.pointee = text(
            "\((error as? MigrationError)?.message ?? (error as? SQLiteError)?.message ?? "\(error)")"
        )
        return SQLITE_ERROR
    }
}

/// Keeps this library in memory until the program ends. SQLite unloads an extension when the connection is closed, or when the extension
/// reports an error, and Swift's runtime does not expect that its types go away. Darwin's loader never unloads Swift code. On Linux, the loader
/// finds the library by its name beside itself.
private func stayLoaded() {
    #if !canImport(Darwin)
        _ = dlopen("libMidstreamExtension.so", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)
    #endif
}

private var libraryName: String {
    "\(Connection.canEncrypt ? "SQLCipher" : "SQLite") \(String(cString: sqlite3_libversion()))"
}

/// SQLITE_OK_LOAD_PERMANENTLY, which Swift does not import: SQLite keeps the library when the connection is closed.
private let loadedForGood: CInt = SQLITE_OK | 1 << 8

/// A text that SQLite frees.
private func text(_ string: String) -> UnsafeMutablePointer<CChar>? {
    let bytes = Array(string.utf8CString)
    guard let copy = sqlite3_malloc(CInt(clamping: bytes.count)) else { return nil }
    let characters = copy.bindMemory(to: CChar.self, capacity: bytes.count)
    characters.update(from: bytes, count: bytes.count)
    return characters
}
