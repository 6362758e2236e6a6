import SQLiteC
import Testing

#if canImport(Glibc)
    import Glibc
#endif

@Suite struct `The library` {
    @Test func `is the one whose header was compiled`() {
        #expect(String(cString: sqlite3_libversion()) == SQLITE_VERSION)
        #expect(sqlite3_libversion_number() == SQLITE_VERSION_NUMBER)
    }

    #if os(Linux)
        @Test func `is the only SQLite in the process`() throws {
            let file = try #require(fopen("/proc/self/maps", "r"))
            defer { fclose(file) }
            var names: Set<String> = []
            var line = [CChar](repeating: 0, count: 8192)
            while fgets(&line, Int32(line.count), file) != nil {
                let text = line.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
                let name = text.split(separator: "/").last?.prefix { $0 != "." } ?? ""
                if name == "libsqlite3" || name == "libsqlcipher" { names.insert(String(name)) }
            }
            let isCipher = sqlite3_compileoption_used("HAS_CODEC") != 0
            #expect(names == [isCipher ? "libsqlcipher" : "libsqlite3"])
            print("library: \(names.joined()) \(SQLITE_VERSION)")
        }
    #endif
}
