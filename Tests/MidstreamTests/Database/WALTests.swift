import Midstream
import SQLiteConnection
import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

private final class Flag: Sendable {
    let value = Mutex(false)
}

@Suite struct WALTests {
    @Test func theWALStaysShortAlthoughReadersComeAndGoWithoutAPause() async throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB);"
                + "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
                + "INSERT INTO t SELECT i, zeroblob(3500) FROM n"
        )
        let isOver = Flag()
        var largest: Int64 = 0
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    while !isOver.value.withLock({ $0 }) {
                        _ = try await database.read { try $0.fetchValue(Int64.self, "SELECT sum(length(x)) FROM t") }
                    }
                }
            }
            // 50,000 pages, 200 MB, in all.
            for round in 0..<100 {
                try await database.write { try $0.execute("UPDATE t SET x = randomblob(3500 + ?)", [round % 7]) }
                var status = stat()
                stat(folder.file("new.db-wal"), &status)
                largest = max(largest, Int64(status.st_size))
            }
            isOver.value.withLock { $0 = true }
            try await group.waitForAll()
        }
        #expect(largest < 64 << 20, "the WAL grew to \(largest) bytes")
    }
}
