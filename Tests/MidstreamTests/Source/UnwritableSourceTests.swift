import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A source that cannot be written moves if it is to be kept: without a fence, and with a check of the source in every
/// step.
@Suite struct UnwritableSourceTests {
    /// What keeps a process from writing the source.
    enum Kind: String, CaseIterable, Codable, Sendable {
        case file, folder, both, walFile, walBoth

        var isWAL: Bool { self == .walFile || self == .walBoth }
        var isFileWritable: Bool { self == .folder }
        var isFolderWritable: Bool { self == .file || self == .walFile }
    }

    /// A source in a folder of its own, a target that can be written, and the source's rows natively.
    struct Sides {
        let folder: String
        let kind: Kind
        var source: String { folder + "/old/old.db" }
        var target: String { folder + "/new.db" }
        let native: Connection

        static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE);"

        init(_ folder: String, _ kind: Kind) throws {
            self.folder = folder
            self.kind = kind
            let rows = """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT INTO t SELECT i, 'a' || i FROM n
                """
            mkdir(folder + "/old", 0o755)
            native = try Connection(path: ":memory:")
            let old = try Connection(path: source)
            if kind.isWAL { try old.execute("PRAGMA journal_mode = WAL") }
            try old.execute(script: Self.schema + rows)
            old.close()
            try native.execute(script: Self.schema + rows)
            chmod(source, kind.isFileWritable ? 0o666 : 0o444)
            chmod(folder + "/old", kind.isFolderWritable ? 0o777 : 0o555)
            Unprivileged.begin(in: folder)
        }

        func add(_ database: Database, _ retirement: SourceRetirement = .keep) throws {
            try database.addMigration(source: .file(source), retirement: retirement) { $0.sourceTable = $0.name }
        }

        func open() throws -> Database {
            let database = try Database(path: target)
            try database.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, a TEXT UNIQUE)")
            return database
        }

        func expectSameRows(_ database: Database, _ location: SourceLocation = #_sourceLocation) throws {
            let sql = "SELECT id, a FROM t ORDER BY id"
            #expect(try texts(database.fetchAll(sql)) == texts(native.fetchAll(sql)), sourceLocation: location)
        }

        /// Writes what an application writes amid the move, natively as well.
        func write(_ database: Database) throws {
            for sql in [
                "UPDATE t SET a = 'new' WHERE id = 50", "DELETE FROM t WHERE id IN (2, 51)",
                "INSERT INTO t VALUES (61, 'a61')", "INSERT OR REPLACE INTO t VALUES (52, 'a53')",
            ] {
                try database.execute(sql)
                try native.execute(sql)
            }
        }

        /// Lets the owner of the files delete them.
        func giveBack() { Unprivileged.asOwner { _ = chmod(folder + "/old", 0o755) } }

        /// Changes the source as its owner.
        func change(_ sql: String) throws {
            try Unprivileged.asOwner {
                chmod(source, 0o644)
                chmod(folder + "/old", 0o755)
                let old = try Connection(path: source)
                try old.execute(sql)
                old.close()
                chmod(source, 0o444)
            }
        }
    }

    @Test(arguments: Kind.allCases)
    func itMovesWhereItIsKeptAndIsRefusedElse(_ kind: Kind) async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [kind, path = folder.path as String] in
            let files = try Sides(path, kind)
            defer { files.giveBack() }
            let before = Files.bytes(files.source)
            let database = try files.open()
            let objects = try MovingFixture.objects(files.target)
            for retirement in [SourceRetirement.drop, .deleteFileWhenEmpty] {
                let error = #expect(throws: MigrationError.self) { try files.add(database, retirement) }
                #expect(error?.code == .sourceUnavailable && error?.message.contains("retirement: .keep") == true)
                #expect(try MovingFixture.objects(files.target) == objects)
            }
            try files.add(database)
            try files.expectSameRows(database)
            try database.stepMigration(rows: 10)
            try files.write(database)
            try files.expectSameRows(database)
            let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
            #expect(error?.message.contains("could not be written") == true)
            database.close()
            let again = try files.open()
            try files.add(again)
            try finishMigration(again)
            try files.expectSameRows(again)
            again.close()
            // Only the target knows that all rows have moved.
            #expect(try Database.unmovedObjects(ofSourceAtPath: files.source, movedTo: files.target).isEmpty)
            let later = try files.open()
            try files.add(later)
            try later.execute("DELETE FROM t WHERE id = 1")
            try files.native.execute("DELETE FROM t WHERE id = 1")
            try files.add(later)
            #expect(later.isMigrated)
            try files.expectSameRows(later)
            #expect(Files.bytes(files.source) == before)
        }
    }

    @Test(arguments: [Kind.file, .walBoth])
    func oneThatIsChangedIsNoticedAndGoesOnWhenItIsPutBack(_ kind: Kind) async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [kind, path = folder.path as String] in
            let files = try Sides(path, kind)
            defer { files.giveBack() }
            let database = try files.open()
            try files.add(database)
            try database.stepMigration(rows: 10)
            try files.write(database)
            var status = stat()
            stat(files.source, &status)
            #if canImport(Darwin)
                let times = [status.st_atimespec, status.st_mtimespec]
            #else
                let times = [status.st_atim, status.st_mtim]
            #endif
            let bytes = Files.bytes(files.source)
            try files.change("UPDATE t SET a = 'other' WHERE id = 40")
            func expectRefusal(_ body: () throws -> Void) {
                let error = #expect(throws: MigrationError.self, performing: body)
                #expect(error?.code == .sourceChanged && error?.message.contains("restore the file as it was") == true)
            }
            expectRefusal { _ = try database.fetchAll("SELECT * FROM t") }
            expectRefusal { try database.execute("UPDATE t SET a = 'x' WHERE id = 40") }
            expectRefusal { try database.stepMigration(rows: 5) }
            database.close()
            expectRefusal { _ = try files.open().fetchAll("SELECT * FROM t") }
            Unprivileged.asOwner {
                let file = open(files.source, O_WRONLY | O_TRUNC)
                _ = write(file, bytes, bytes.count)
                close(file)
                utimensat(AT_FDCWD, files.source, times, 0)
                if kind == .walBoth { chmod(path + "/old", 0o555) }
            }
            let again = try files.open()
            try files.expectSameRows(again)
            try finishMigration(again)
            try files.expectSameRows(again)
        }
    }

    @Test(arguments: [Kind.both, .walBoth]) func aWholeFileMovesFromOne(_ kind: Kind) async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [kind, path = folder.path as String] in
            let files = try Sides(path, kind)
            defer { files.giveBack() }
            for _ in 0..<2 {
                let database = try Database(path: files.target, movingAllOf: .file(files.source))
                try files.expectSameRows(database)
                try database.stepMigration(rows: 10)
                if !database.isMigrated { try files.write(database) }
                try finishMigration(database)
                try files.expectSameRows(database)
                database.close()
            }
        }
    }

    /// SQLite needs a file beside the WAL to read it.
    @Test func oneWithAWALInAFolderThatCannotBeWrittenIsRefused() async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [path = folder.path as String] in
            let old = try Connection(path: path + "/first.db")
            try old.execute("PRAGMA journal_mode = WAL")
            try old.execute(script: Sides.schema + "INSERT INTO t VALUES (1, 'a')")
            mkdir(path + "/old", 0o755)
            for suffix in ["", "-wal"] {
                Files.copy(path + "/first.db" + suffix, to: path + "/old/old.db" + suffix)
                chmod(path + "/old/old.db" + suffix, 0o444)
            }
            chmod(path + "/old", 0o555)
            old.close()
            Unprivileged.begin(in: path)
            defer { Unprivileged.asOwner { _ = chmod(path + "/old", 0o755) } }
            let database = try Database(path: path + "/new.db")
            try database.execute(Sides.schema)
            let error = #expect(throws: MigrationError.self) {
                try database.addMigration(source: .file(path + "/old/old.db"), retirement: .keep) {
                    $0.sourceTable = $0.name
                }
            }
            #expect(error?.code == .sourceUnavailable && error?.message.contains("make the folder") == true)
            #expect(database.isMigrated)
        }
    }

    /// No file can be made beside it, as a WAL would need.
    @Test(arguments: [Kind.folder, .both, .walBoth])
    func theProgressOfAFileThatCannotBeWrittenIsRead(_ kind: Kind) async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [kind, path = folder.path as String] in
            let files = try Sides(path, kind)
            defer { files.giveBack() }
            #expect(try Database.readMigrationProgress(ofFile: files.source).isFinished)
        }
    }
}
