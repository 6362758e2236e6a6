import Dispatch
import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Tables that are created in the target when the migration that fills them has been added, or is just being added.
@Suite struct NewTableTests {
    private func old(_ folder: TemporaryFolder) throws -> String {
        let path = folder.file("old.db")
        try Connection(path: path).execute(
            script: "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY); "
                + "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1), (2)"
        )
        return path
    }

    /// Otherwise the filter would not be asked about the table until the next launch, and the table would show none of
    /// the source's rows.
    @Test(.timeLimit(.minutes(1)), arguments: [true, false])
    func oneThatIsCreatedWhileTheMigrationIsAddedMoves(_ isInFilter: Bool) async throws {
        let folder = TemporaryFolder()
        let path = try old(folder)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE a(id INTEGER PRIMARY KEY)")
        // The beginning waits for this connection when the filter has been asked and its answer is stored.
        let holder = try Connection(path: path)
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute("BEGIN IMMEDIATE")
        let (isAsked, isCreated) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let threads = Threads()
        threads.start("creator") { _ in
            isAsked.wait()
            if !isInFilter { usleep(300_000) }
            try database.execute("CREATE TABLE b(id INTEGER PRIMARY KEY)")
            isCreated.signal()
        }
        threads.start("beginner") { threads in
            try database.addMigration(source: .file(path)) { table in
                table.sourceTable = table.name
                if threads.count(of: "asked") == 0 {
                    isAsked.signal()
                    if isInFilter { isCreated.wait() }
                }
                threads.count("asked")
            }
        }
        usleep(600_000)
        try holder.execute("COMMIT")
        holder.close()
        await threads.join()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM b") == 2)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM b") == 2)
    }

    /// This happens while another program holds the source.
    @Test func oneThatCouldNotBeginIsTriedAgainByTheNextStep() throws {
        let folder = TemporaryFolder()
        let path = try old(folder)
        let database = try Database(path: folder.file("new.db"))
        let failures = Threads()
        database.onMigrated { event in
            if case .failed = event { failures.count("failed") }
        }
        try database.addMigration(source: .file(path), allowsNoTables: true) { $0.sourceTable = $0.name }
        Files.moveDatabase(path, to: path + "-away")
        try database.execute("CREATE TABLE b(id INTEGER PRIMARY KEY)")
        #expect(failures.count(of: "failed") == 1)
        _ = try? database.stepMigration()
        #expect(failures.count(of: "failed") == 2)
        // No write takes longer because of it.
        try database.execute("CREATE TEMP TABLE other(x)")
        try database.execute("INSERT INTO other VALUES (1)")
        Files.moveDatabase(path + "-away", to: path)
        try database.stepMigration()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM b") == 2)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM b") == 2)
    }
}
