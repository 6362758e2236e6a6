import SQLiteConnection
import Testing

@testable import Midstream

@Suite struct WriteLockTests {
    /// Whoever writes the source waits for the target then, so that one who held the target and waited for the source would wait
    /// for ever.
    @Test(arguments: ["midstream_state", "midstream_copy"])
    func theTargetsLockIsHadWhileSomebodyHoldsTheSource(_ table: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        database.close()
        let connection = try Connection(path: folder.file("new.db"))
        try connection.execute("ATTACH ? AS old", [folder.file("old.db")])
        try old.execute("BEGIN IMMEDIATE")
        try WriteLock.begin(connection, by: table)
        let other = try Connection(path: folder.file("new.db"))
        let error = #expect(throws: SQLiteError.self) { try other.execute("BEGIN IMMEDIATE") }
        #expect(error?.code == .busy)
        try connection.execute("ROLLBACK")
        try old.execute("ROLLBACK")
    }
}
