#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

internal import Midstream

/// Makes SQLite's functions that prepare statements rewrite, for the whole program, what SQLite refuses on a moving table: upserts,
/// RETURNING, and UPDATE … FROM. The statements of GRDB, SQLite.swift, FMDB or plain C then run as they are.
///
///     import MidstreamPreparing
///
///     assert(Preparing.isInPlace)         // once, where the program begins
///
/// The module defines functions of the names `sqlite3_prepare`, `sqlite3_prepare_v2` and `sqlite3_prepare_v3`, which call those of the SQLite
/// library. A program finds the module's functions first, if the program has SQLite from a dynamic library, and if the code that prepares
/// statements is linked into the same executable as the module. If SQLite itself is linked into the program, the linker reports the names as
/// defined twice: then use `MigrationOverlay.rewritten`.
///
/// The functions change nothing on connections without an overlay, and leave other statements as they are. A statement that cannot be
/// rewritten is prepared as it is, and fails with SQLite's error or the overlay's. `sqlite3_sql` gives the rewritten text.
public enum Preparing {
    /// Whether the functions for preparing that the program finds are those of this module.
    public static var isInPlace: Bool {
        // RTLD_DEFAULT, which Swift does not import.
        #if canImport(Darwin)
            let anywhere = UnsafeMutableRawPointer(bitPattern: -2)
        #else
            let anywhere: UnsafeMutableRawPointer? = nil
        #endif
        let own: PrepareV2 = prepareV2
        return dlsym(anywhere, "sqlite3_prepare_v2") == unsafeBitCast(own, to: UnsafeMutableRawPointer.self)
    }
}

typealias Text = UnsafePointer<CChar>
typealias PrepareV2 =
    @convention(c) (
        OpaquePointer?, Text?, CInt, UnsafeMutablePointer<OpaquePointer?>?, UnsafeMutablePointer<Text?>?
    ) -> CInt
typealias PrepareV3 =
    @convention(c) (
        OpaquePointer?, Text?, CInt, CUnsignedInt, UnsafeMutablePointer<OpaquePointer?>?, UnsafeMutablePointer<Text?>?
    ) -> CInt

/// The functions of the SQLite library.
private enum Library {
    static let prepare = unsafeBitCast(symbol("sqlite3_prepare"), to: PrepareV2.self)
    static let prepareV2 = unsafeBitCast(symbol("sqlite3_prepare_v2"), to: PrepareV2.self)
    /// SQLite has this function since version 3.20.
    static let prepareV3 = unsafeBitCast(symbol("sqlite3_prepare_v3"), to: PrepareV3.self)

    private static func symbol(_ name: String) -> UnsafeMutableRawPointer {
        // RTLD_NEXT, which Swift does not import.
        guard let next = UnsafeMutableRawPointer(bitPattern: -1), let symbol = dlsym(next, name) else {
            fatalError("\(name) is not in the SQLite library of this program: leave out the module MidstreamPreparing")
        }
        return symbol
    }
}

@_cdecl("sqlite3_prepare")
func prepare(
    _ handle: OpaquePointer?,
    _ sql: Text?,
    _ count: CInt,
    _ statement: UnsafeMutablePointer<OpaquePointer?>?,
    _ tail: UnsafeMutablePointer<Text?>?
) -> CInt {
    rewriting(handle, sql, count, tail) { Library.prepare(handle, $0, $1, statement, $2) }
}

@_cdecl("sqlite3_prepare_v2")
func prepareV2(
    _ handle: OpaquePointer?,
    _ sql: Text?,
    _ count: CInt,
    _ statement: UnsafeMutablePointer<OpaquePointer?>?,
    _ tail: UnsafeMutablePointer<Text?>?
) -> CInt {
    rewriting(handle, sql, count, tail) { Library.prepareV2(handle, $0, $1, statement, $2) }
}

@_cdecl("sqlite3_prepare_v3")
func prepareV3(
    _ handle: OpaquePointer?,
    _ sql: Text?,
    _ count: CInt,
    _ flags: CUnsignedInt,
    _ statement: UnsafeMutablePointer<OpaquePointer?>?,
    _ tail: UnsafeMutablePointer<Text?>?
) -> CInt {
    rewriting(handle, sql, count, tail) { Library.prepareV3(handle, $0, $1, flags, statement, $2) }
}

/// Prepares a text, or what takes its place.
private func rewriting(
    _ handle: OpaquePointer?,
    _ sql: Text?,
    _ count: CInt,
    _ tail: UnsafeMutablePointer<Text?>?,
    _ prepare: (Text?, CInt, UnsafeMutablePointer<Text?>?) -> CInt
) -> CInt {
    guard let handle, let sql, let overlay = MigrationOverlay.installed(on: handle) else {
        return prepare(sql, count, tail)
    }
    let length = count < 0 ? strlen(sql) : strnlen(sql, Int(count))
    let bytes = UnsafeRawBufferPointer(start: sql, count: length)
    guard mayNeedRewriting(bytes), let text = String(validating: bytes, as: UTF8.self),
        let rewritten = try? overlay.rewriting(of: text)
    else { return prepare(sql, count, tail) }
    let code = rewritten.sql.withCString { prepare($0, -1, nil) }
    tail?.pointee = sql + rewritten.end
    return code
}

/// Whether a text has a word without which SQLite refuses no statement on a moving table.
private func mayNeedRewriting(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard let first = bytes.first(where: { $0 > 0x20 }), !"sS".utf8.contains(first) else { return false }
    return words.contains { word in
        guard bytes.count >= word.count else { return false }
        return (0...bytes.count - word.count).contains { start in
            word.indices.allSatisfy { bytes[start + $0] | 0x20 == word[$0] }
        }
    }
}

private let words = ["conflict", "returning", "from"].map { Array($0.utf8) }
