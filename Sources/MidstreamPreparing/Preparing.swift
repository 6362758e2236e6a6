#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

internal import Midstream
internal import SQLiteConnection

/// Makes SQLite's functions that prepare statements rewrite, for the whole program, what SQLite refuses on a moving table: upserts
/// and RETURNING. The statements of GRDB, SQLite.swift, FMDB or plain C then run as they are.
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
    rewriting(handle, sql, count, statement, tail) { Library.prepare(handle, $0, $1, statement, $2) }
}

@_cdecl("sqlite3_prepare_v2")
func prepareV2(
    _ handle: OpaquePointer?,
    _ sql: Text?,
    _ count: CInt,
    _ statement: UnsafeMutablePointer<OpaquePointer?>?,
    _ tail: UnsafeMutablePointer<Text?>?
) -> CInt {
    rewriting(handle, sql, count, statement, tail) { Library.prepareV2(handle, $0, $1, statement, $2) }
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
    rewriting(handle, sql, count, statement, tail) { Library.prepareV3(handle, $0, $1, flags, statement, $2) }
}

/// Prepares a text, or what takes its place.
private func rewriting(
    _ handle: OpaquePointer?,
    _ sql: Text?,
    _ count: CInt,
    _ statement: UnsafeMutablePointer<OpaquePointer?>?,
    _ tail: UnsafeMutablePointer<Text?>?,
    _ prepare: (Text?, CInt, UnsafeMutablePointer<Text?>?) -> CInt
) -> CInt {
    guard let handle, let sql, let overlay = MigrationOverlay.installed(on: handle) else {
        return prepare(sql, count, tail)
    }
    let first = FirstStatement(sql, most: count < 0 ? .max : Int(count))
    guard first.mayNeedRewriting, let text = String(validating: first.bytes, as: UTF8.self) else {
        return prepare(sql, count, tail)
    }
    do {
        guard let rewritten = try overlay.rewriting(of: text) else { return prepare(sql, count, tail) }
        let code = rewritten.withCString { prepare($0, -1, nil) }
        tail?.pointee = sql + first.end
        return code
    } catch let error as SQLiteError where error.code.isOfMoment {
        // The connection has this error as its last one.
        statement?.pointee = nil
        tail?.pointee = sql + first.end
        return error.code.rawValue
    } catch {
        // SQLite, or the overlay when the statement runs, tells that the statement is refused.
        return prepare(sql, count, tail)
    }
}

extension ResultCode {
    /// Whether the error may be gone when the statement is prepared again.
    fileprivate var isOfMoment: Bool {
        ResultCode.busy ~= self || ResultCode.locked ~= self || [.interrupt, .outOfMemory].contains(primary)
    }
}

/// The first statement of a text, found without looking at those after it: a program prepares the statements of a script one by one.
private struct FirstStatement {
    let bytes: UnsafeRawBufferPointer
    /// Where the next statement begins.
    let end: Int
    /// Whether the statement has a word without which SQLite refuses no statement on a moving table.
    let mayNeedRewriting: Bool

    init(_ sql: Text, most: Int) {
        let start = UnsafeRawPointer(sql).assumingMemoryBound(to: UInt8.self)
        func byte(_ place: Int) -> UInt8 { place < most ? start[place] : 0 }
        var (place, word): (Int, [UInt8]) = (0, [])
        var (beginning, hasBegun, hasWord) = (0, false, false)
        func skip(to end: UInt8) {
            place += 1
            while byte(place) != end, byte(place) != 0 { place += 1 }
            if byte(place) != 0 { place += 1 }
        }
        scan: while byte(place) != 0 {
            let character = byte(place)
            let lower = character | 0x20
            if lower >= UInt8(ascii: "a"), lower <= UInt8(ascii: "z") {
                if word.count < Self.longest { word.append(lower) }
                hasBegun = true
                place += 1
                continue
            }
            hasWord = hasWord || Self.words.contains(word)
            word.removeAll(keepingCapacity: true)
            switch character {
            case UInt8(ascii: ";"):
                place += 1
                if hasBegun { break scan }
                beginning = place
            case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"): skip(to: character)
            case UInt8(ascii: "["): skip(to: UInt8(ascii: "]"))
            case UInt8(ascii: "-") where byte(place + 1) == character: skip(to: UInt8(ascii: "\n"))
            case UInt8(ascii: "/") where byte(place + 1) == UInt8(ascii: "*"):
                place += 2
                while byte(place) != 0, !(byte(place) == UInt8(ascii: "*") && byte(place + 1) == UInt8(ascii: "/")) {
                    place += 1
                }
                if byte(place) != 0 { place += 2 }
            default: place += 1
            }
        }
        mayNeedRewriting = hasWord || Self.words.contains(word)
        bytes = UnsafeRawBufferPointer(start: sql + beginning, count: place - beginning)
        end = place
    }

    private static let words = [Array("conflict".utf8), Array("returning".utf8)]
    private static let longest = 10
}
