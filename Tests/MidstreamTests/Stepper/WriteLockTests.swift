import SQLiteConnection
import Testing

@testable import Midstream

@Suite struct WriteLockTests {
    /// A connection that writes the source then waits for the target. So a connection that held the target and waited
    /// for the source would wait for ever.
    @Test(arguments: ["NONE", "FULL", "INCREMENTAL"], [true, false])
    func theTargetsLockIsHadWhileSomebodyHoldsTheSource(_ vacuum: String, _ isMoving: Bool) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)"
        )
        let new = try Connection(path: folder.file("new.db"))
        try new.execute(
            script: """
                PRAGMA auto_vacuum = \(vacuum);
                CREATE TABLE t(id INTEGER PRIMARY KEY);
                CREATE TABLE rows(x);
                INSERT INTO rows VALUES (zeroblob(100000));
                DELETE FROM rows;
                """
        )
        if isMoving {
            let database = try Database(path: folder.file("new.db"))
            try database.addMigration(source: .file(folder.file("old.db"))) {
                if $0.name == "t" { $0.sourceTable = "t" }
            }
            database.close()
        }
        try new.execute("ATTACH ? AS old", [folder.file("old.db")])
        try old.execute("BEGIN IMMEDIATE")
        let waiting = try Connection(path: folder.file("new.db"))
        for _ in 0..<3 {
            try WriteLock.begin(new)
            let error = #expect(throws: SQLiteError.self) { try waiting.execute("BEGIN IMMEDIATE") }
            #expect(error?.code == .busy)
            try new.execute("COMMIT")
        }
        try waiting.execute("BEGIN IMMEDIATE")
        let error = #expect(throws: SQLiteError.self) { try WriteLock.begin(new) }
        #expect(error?.code == .busy)
        #expect(!new.isInTransaction)
        try waiting.execute("COMMIT")
        try old.execute("COMMIT")
        #expect(try new.fetchValue(String.self, "PRAGMA main.integrity_check") == "ok")
    }

    /// Nothing else reads the map, which tells what each page belongs to.
    @Test func aDamagedMapOfFreePagesKeepsNobodyFromWriting() throws {
        let folder = TemporaryFolder()
        let path = folder.file("new.db")
        let damaged = try Connection(path: path)
        try damaged.execute(
            script: """
                PRAGMA page_size = 4096;
                PRAGMA auto_vacuum = INCREMENTAL;
                CREATE TABLE t(id INTEGER PRIMARY KEY);
                CREATE TABLE rows(x);
                INSERT INTO rows VALUES (zeroblob(100000));
                DELETE FROM rows;
                """
        )
        damaged.close()
        #expect(DamagedPages(path: path, pageSize: 4096).overwrite([1]))
        let new = try Connection(path: path)
        let error = #expect(throws: SQLiteError.self) { try new.execute("PRAGMA main.incremental_vacuum(1)") }
        #expect(error?.code.primary == .corrupt)
        try WriteLock.begin(new)
        let waiting = try Connection(path: path)
        let isBusy = #expect(throws: SQLiteError.self) { try waiting.execute("BEGIN IMMEDIATE") }
        #expect(isBusy?.code == .busy)
        try new.execute("INSERT INTO t VALUES (1)")
        try new.execute("COMMIT")
    }
}
