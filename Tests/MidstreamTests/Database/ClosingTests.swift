import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

@Suite struct ClosingTests {
    /// The process's open files, as far as they are in the folder.
    private func openFiles(in folder: String) -> [String] {
        var found: [String] = []
        for descriptor in 0..<4096 {
            var buffer = [CChar](repeating: 0, count: 4096)
            let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count - 1)
            guard count > 0 else { continue }
            let path = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if path.hasPrefix(folder) { found.append(path) }
        }
        return found
    }

    #if os(Linux)
        @Test(arguments: [true, false])
        func aDatabaseThatIsLetGoClosesItsFiles(isClosedByHand: Bool) throws {
            let folder = TemporaryFolder()
            try Connection(path: folder.file("old.db")).execute(
                script: "CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"
            )
            do {
                let database = try Database(path: folder.file("new.db"))
                try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE)")
                try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
                try database.stepMigration(rows: 1)
                try database.execute("UPDATE t SET k = k + 10 WHERE k = 3")
                #expect(try database.fetchValue(Int64.self, "SELECT sum(k) FROM t") == 16)
                #expect(!openFiles(in: folder.path).isEmpty)
                if isClosedByHand { database.close() }
            }
            #expect(openFiles(in: folder.path) == [])
        }
    #endif
}
