import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A folder that is removed with the object.
final class TemporaryFolder {
    let path: String

    init() throws {
        var template = Array("/tmp/midstream-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    func file(_ name: String) -> String { path + "/" + name }

    deinit {
        for name in ["a.db", "b.db"] {
            for suffix in ["", "-wal", "-shm", "-journal"] { unlink(file(name + suffix)) }
        }
        rmdir(path)
    }
}

func memory() throws -> Connection {
    try Connection(path: ":memory:")
}

/// The error that `body` throws.
func sqliteError(
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () throws -> Void
) throws -> SQLiteError {
    try #require(throws: SQLiteError.self, sourceLocation: sourceLocation, performing: body)
}
