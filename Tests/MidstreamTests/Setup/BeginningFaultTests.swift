import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

/// Whatever fails while a migration begins, both files are as they were, or the beginning is finished when the target
/// is opened next. Until then no row can take the key of a row that is to come.
///
/// With `MIDSTREAM_FAULTS_FULL=1`, each operation fails in turn; otherwise a few of each kind fail.
@Suite struct BeginningFaultTests {
    /// Which file's operations fail.
    enum Side: String, CaseIterable, Codable, Sendable { case source, target, both }

    struct Kind: Codable, CustomStringConvertible {
        var operation: FileOperation
        var code: Int32?
        var isPersistent: Bool

        var description: String {
            "\(operation)\(code.map { " \($0)" } ?? "")\(isPersistent ? ", lasting" : "")"
        }

        /// These include errors of permissions: opening a file fails with `.readOnly` if the file is opened to be read.
        static let all: [Kind] = [true, false].flatMap { isPersistent in
            FileOperation.allCases.map { Kind(operation: $0, isPersistent: isPersistent) }
                + [
                    (.open, .readOnly), (.open, .permission), (.write, .readOnly), (.lock, .permission),
                    (.write, .full),
                    (.lock, .readOnly), (.lockSharedMemory, .readOnly),
                ].map { (operation: FileOperation, code: ResultCode) in
                    Kind(operation: operation, code: code.rawValue, isPersistent: isPersistent)
                }
        }
    }

    @Test(arguments: Side.allCases, [false, true])
    func bothFilesAreAsTheyWereOrTheMoveGoesOn(_ side: Side, isWAL: Bool) async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [side, isWAL, path = folder.path as String] in
            try FailingVFS.register()
            // Each kind has its turn with some side, mode and retirement.
            var turn = (Side.allCases.firstIndex(of: side) ?? 0) * 2 + (isWAL ? 1 : 0)
            for kind in Kind.all {
                for retirement in [SourceRetirement.drop, .keep] {
                    turn += 1
                    guard FaultSweepTests.isFull || turn % Self.share == 0 else { continue }
                    try Self.sweep(kind, side, retirement, isWAL: isWAL, path)
                }
            }
        }
    }

    /// One run of this many is made.
    private static let share = 12
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE);"

    private static func sweep(
        _ kind: Kind,
        _ side: Side,
        _ retirement: SourceRetirement,
        isWAL: Bool,
        _ path: String
    ) throws {
        var run = Run(kind: kind, side: side, retirement: retirement, isWAL: isWAL, folder: path)
        let count = try run.begin(failing: .max)
        let isFull = FaultSweepTests.isFull
        let numbers =
            isFull
            ? Array(1..<max(count, 1) + 1)
            : Sample.points(count, about: 1, chosenBy: "\(kind), \(side), \(retirement), \(isWAL)")
        for number in numbers { _ = try run.begin(failing: number) }
    }

    /// A pair of files in which a migration begins, with one fault.
    private struct Run {
        let kind: Kind
        let side: Side
        let retirement: SourceRetirement
        let isWAL: Bool
        let folder: String
        var source: String { folder + "/old.db" }
        var target: String { folder + "/new.db" }

        private func words(_ number: Int) -> Comment {
            "\(kind) \(number) of \(side), \(retirement)\(isWAL ? ", WAL" : "")"
        }

        private func prepare() throws {
            for file in [source, target] { Files.removeDatabase(file) }
            let old = try Connection(path: source)
            if isWAL { try old.execute("PRAGMA journal_mode = WAL") }
            try old.execute(script: BeginningFaultTests.schema + "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
            old.close()
            let new = try Connection(path: target)
            try new.execute("PRAGMA journal_mode = WAL")
            try new.execute(script: BeginningFaultTests.schema)
            new.close()
        }

        private func add(_ database: Database) throws {
            try database.addMigration(source: .file(source), retirement: retirement) { $0.sourceTable = $0.name }
        }

        /// A file's objects, and whether the file has a WAL.
        private func state(_ path: String) throws -> [String] {
            let connection = try Connection(path: path, options: OpenOptions(access: .readOnly))
            defer { connection.close() }
            // A commit that failed may have claimed the source all the same, which shows later. The table that is left
            // out notes this.
            return try connection.fetchAll(
                "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_master WHERE name <> 'midstream_unreleased' ORDER BY 1"
            )
            .map { try $0.get(0) } + texts(connection.fetchAll("PRAGMA journal_mode"))
        }

        /// - Returns: How many operations could have failed.
        mutating func begin(failing number: Int) throws -> Int {
            try prepare()
            let before = try (state(source), state(target))
            let database = try Database(path: target)
            let paths = side == .source ? [source] : side == .target ? [target] : [source, target]
            let files = Set(paths.flatMap { path in ["", "-wal", "-journal", "-shm"].map { path + $0 } })
            FailingVFS.fail(
                FileFault(
                    kind.operation,
                    number: number,
                    isPersistent: kind.isPersistent,
                    code: kind.code.map(ResultCode.init(rawValue:)),
                    files: files
                )
            )
            let result = Result { try add(database) }
            let count = FailingVFS.operations
            if case .failure = result { try expectNoHole(database, number) }
            FailingVFS.clear()
            if case .failure = result {
                if try database.readMigrationProgress().tables.isEmpty {
                    #expect(try state(source) == before.0, words(number))
                    #expect(try state(target) == before.1, words(number))
                }
            }
            database.close()
            try expectWhole(number)
            return count
        }

        /// A row that has the key of a row to come is refused, unless no row is to come.
        private func expectNoHole(_ database: Database, _ number: Int) throws {
            let isTaken = (try? database.execute("INSERT INTO t VALUES (2, 'z')")) != nil
            guard isTaken else { return }
            let tables = try? database.readMigrationProgress().tables
            #expect(tables?.isEmpty != false, words(number))
            try database.execute("DELETE FROM t WHERE id = 2")
        }

        /// The next launch begins the migration, or finds that it has begun.
        private func expectWhole(_ number: Int) throws {
            let database = try Database(path: target)
            defer { database.close() }
            try add(database)
            let rows = ["1|a", "2|b", "3|c"]
            #expect(try texts(database.fetchAll("SELECT * FROM t ORDER BY id")) == rows, words(number))
            #expect(throws: SQLiteError.self, words(number)) { try database.execute("INSERT INTO t VALUES (2, 'z')") }
            try finishMigration(database)
            #expect(try texts(database.fetchAll("SELECT * FROM t ORDER BY id")) == rows, words(number))
        }
    }
}
