import Midstream
import SQLiteConnection
import Synchronization
import Testing

/// Files with many tables that have few rows each.
@Suite struct ManyTablesTests {
    private let folder = TemporaryFolder()
    private var source: String { folder.file("old.db") }
    private var target: String { folder.file("new.db") }

    private func make(_ path: String, tables: Int, rows: Bool, _ extra: String = "") throws {
        let connection = try Connection(path: path)
        defer { connection.close() }
        try connection.transaction {
            for number in 0..<tables {
                try connection.execute("CREATE TABLE t\(number)(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)")
                try connection.execute("CREATE INDEX i\(number) ON t\(number)(b)")
                guard rows else { continue }
                try connection.execute(
                    "INSERT INTO t\(number)(a, b) VALUES ('one', 1), ('two', 2), ('three', \(number))"
                )
            }
            try connection.execute(script: extra)
        }
    }

    private func sums(_ tables: Int) -> String {
        (0..<tables).map { "SELECT \($0) AS n, count(*), sum(b), max(a) FROM t\($0)" }.joined(separator: " UNION ALL ")
    }

    @Test(arguments: [SourceRetirement.drop, .keep, .deleteFileWhenEmpty], [false, true])
    func smallTablesMoveTogetherAndEachOfThemWhole(_ retirement: SourceRetirement, _ isSameFile: Bool) throws {
        let tables = 12
        try make(source, tables: tables, rows: true)
        let native = try Connection(path: source).fetchAll(sums(tables))
        if isSameFile {
            guard retirement != .deleteFileWhenEmpty else { return }
            try make(target, tables: tables, rows: false)
            let connection = try Connection(path: target)
            try connection.attach(source, as: "old")
            for number in 0..<tables {
                try connection.execute("CREATE TABLE old\(number)(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)")
                try connection.execute("INSERT INTO old\(number) SELECT * FROM old.t\(number)")
            }
            connection.close()
        } else {
            try make(target, tables: tables, rows: false)
        }
        let database = try Database(path: target)
        let events = Mutex<[String]>([])
        database.onMigrated { event in
            if case .tableMoved(let name) = event { events.withLock { $0.append(name) } }
        }
        try database.addMigration(source: isSameFile ? .sameDatabase : .file(source), retirement: retirement) {
            if $0.name.hasPrefix("t") { $0.sourceTable = isSameFile ? "old" + $0.name.dropFirst() : $0.name }
        }
        try database.execute("UPDATE t3 SET b = b + 100 WHERE a = 'one'")
        try database.execute("UPDATE t3 SET b = b - 100 WHERE a = 'one'")
        var steps = 0
        while try !database.stepMigration(budget: .seconds(1)).isFinished {
            steps += 1
            #expect(try database.fetchAll(sums(tables)) == native)
        }
        // Alone, each table takes several steps.
        #expect(steps < tables)
        #expect(try database.fetchAll(sums(tables)) == native)
        #expect(events.withLock { $0.sorted() } == (0..<tables).map { "t\($0)" }.sorted())
        if !isSameFile {
            let left = retirement == .deleteFileWhenEmpty ? nil : try Connection(path: source)
            let count = try left?.fetchValue(Int64.self, "SELECT count(*) FROM t5")
            #expect(count == (retirement == .keep ? 3 : retirement == .drop ? 0 : nil))
        }
    }

    @Test func aTableThatCannotMoveKeepsNoOtherAndTellsWhy() throws {
        try make(source, tables: 8, rows: true)
        try make(target, tables: 8, rows: false)
        let plain = try Connection(path: target)
        try plain.execute("DROP TABLE t2")
        try plain.execute("CREATE TABLE t2(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b CHECK (b <> 2))")
        plain.close()
        let database = try Database(path: target)
        try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name }
        var refusals = 0
        for _ in 0..<20 {
            do { try database.stepMigration(budget: .seconds(1)) } catch let error as MigrationError {
                #expect(error.code == .rowRefused)
                #expect(error.table == "t2")
                refusals += 1
            }
        }
        #expect(refusals > 0)
        let progress = try database.readMigrationProgress()
        #expect(progress.tables.filter { $0.phase != .done }.map(\.name) == ["t2"])
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t2") == 3)
        try database.execute("DELETE FROM t2 WHERE b = 2")
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t2") == 1)
    }

    /// A reader's snapshot keeps sources from being retired. The steps check this once for all tables.
    @Test func tablesThatWaitForReadersRetireTogetherWhenThoseHaveLeft() throws {
        try make(source, tables: 6, rows: true)
        try make(target, tables: 6, rows: false)
        let database = try Database(path: target)
        try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name }
        let other = try Database(path: target)
        try other.read { access in
            let before = try access.fetchAll(sums(6))
            for _ in 0..<6 { try database.stepMigration(budget: .seconds(1)) }
            let progress = try database.readMigrationProgress()
            #expect(progress.tables.allSatisfy { $0.phase == .retiring })
            #expect(try access.fetchAll(sums(6)) == before)
        }
        try finishMigration(database)
        #expect(try MovingFixture.count("t5", in: source) == 0)
    }
}
