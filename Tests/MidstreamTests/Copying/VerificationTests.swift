import SQLiteConnection
import Testing

@testable import Midstream

/// What is copied is compared with what it was copied from.
@Suite struct VerificationTests {
    private let folder = TemporaryFolder()

    private static let rows = """
        INSERT INTO s VALUES (1, 'a', 1.5, x'00ff'), (2, NULL, NULL, NULL), (3, 'A', 3.0, 'text'), (4, '4', -0.0, 4),
            (5, 'ä', 1e300, zeroblob(20000)), (9, '', 0.1, x'')
        """

    private func begin(
        _ verification: MigrationVerification,
        target: String = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b REAL, c)"
    ) throws -> Database {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script:
                "CREATE TABLE s(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b REAL, c); CREATE UNIQUE INDEX u ON s(id);"
                + Self.rows
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(target)
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "s"
            table.verification = verification
            if table.name == "t", target.contains("label") {
                table.columns["label"] = .expression("a || b")
                table.unmatchedColumns = .ignored
            }
        }
        return database
    }

    /// Statements may have brought over very many, and each batch asks which of its rows those are.
    @Test(arguments: ["(id INTEGER PRIMARY KEY, a)", "(id PRIMARY KEY, a) WITHOUT ROWID"])
    func rowsThatStatementsHaveBroughtOverAreFoundByTheBatch(_ columns: String) throws {
        let connection = try Connection(path: folder.file("new.db"))
        try connection.execute("CREATE TABLE s\(columns)")
        try connection.execute("CREATE TABLE t\(columns)")
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .sameDatabase) {
            if $0.name == "t" { ($0.sourceTable, $0.verification) = ("s", .complete) }
        }
        try database.engine.withStepper { stepper in
            let (migrations, records) = try stepper.load()
            let sql = VerificationSQL(try stepper.sql(for: records[0], migrations[0]))
            let plan = try stepper.connection.fetchAll(
                "EXPLAIN QUERY PLAN \(sql.settledHashes(KeyRange(first: .after, second: .through)))"
            ).map { try $0.get(3, as: String.self) }
            #expect(plan.contains { $0.contains("id>? AND ") && $0.contains("id<?") }, "\(plan)")
        }
    }

    /// Each of these is something that a failing machine, or another program, may do to a row between copy and commit.
    @Test(
        arguments: [
            ("UPDATE t SET a = 'a' WHERE id = 3", 3), ("UPDATE t SET b = 0.2 WHERE id = 9", 9),
            ("DELETE FROM t WHERE id = 4", 4),
            ("UPDATE t SET c = '4' WHERE id = 4", 4), ("UPDATE t SET a = 0 WHERE id = 2", 2),
            ("UPDATE t SET id = 7 WHERE id = 5", 5),
            ("UPDATE t SET c = zeroblob(19999) || x'01' WHERE id = 5", 5), ("SELECT 1", nil),
        ] as [(String, Int64?)]
    )
    func aRowThatIsNotWhatItWasIsFound(_ tampering: String, _ key: Int64?) throws {
        try begin(.batches).close()
        let connection = try Connection(path: folder.file("new.db"))
        try connection.configure(.triggers, false)
        try StoredValue.define(on: connection)
        let (migrations, records) = try StateStore(connection: connection).load()
        try connection.execute("ATTACH ? AS \(migrations[0].schema)", [folder.file("old.db")])
        let target = try #require(try SchemaReader(connection: connection, schema: "main").table("t"))
        let source = try #require(try SchemaReader(connection: connection, schema: migrations[0].schema).table("s"))
        let sql = MoveSQL(record: records[0], migration: migrations[0], target: target, source: source)
        let mover = RowMover(statements: InternalStatements(connection: connection, canPromote: false), sql: sql)
        try connection.execute("BEGIN")
        let text = sql.copyRange(KeyRange(), withLedger: false, undoing: .statement)
        let copied = try mover.run(text) { _ in }
        #expect(copied == 6)
        try connection.execute(tampering)
        func verify() throws {
            try mover.verify(records[0], from: .start, through: nil, hasLedger: false, copied: copied)
        }
        if let key {
            let error = #expect(throws: MigrationError.self) { try verify() }
            #expect(error?.code == .notVerified && error?.key == key, "\(tampering)")
        } else {
            try verify()
        }
        // One by one.
        let keys: [Int64] = [1, 2, 3, 4, 5, 9]
        for (before, own) in zip([nil] + keys, keys) {
            let position = before.map { Position.after(.rowID($0)) } ?? .start
            func verifyRow() throws { try mover.verifyRow(records[0], from: position, through: .rowID(own)) }
            if own == key {
                let error = #expect(throws: MigrationError.self) { try verifyRow() }
                #expect(error?.key == key)
            } else {
                try verifyRow()
            }
        }
        try connection.execute("ROLLBACK")
    }

    @Test(arguments: [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b REAL, c)",
        "CREATE TABLE t(c TEXT, label TEXT, b NUMERIC, a BLOB, id INTEGER PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE t(label, a INTEGER, x DEFAULT 'x', id INTEGER)",
    ])
    func theChecksumOfAllRowsIsThatOfTheSource(_ target: String) throws {
        let database = try begin(.complete, target: target)
        try database.execute("UPDATE t SET a = 'changed' WHERE id IN (2, 9)")
        try database.stepMigration(rows: 2)
        try database.execute("DELETE FROM t WHERE id IN (1, 5); INSERT INTO t(id, a) VALUES (100, 'new')")
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 5)
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 0)
    }

    @Test(arguments: [true, false]) func anotherChecksumKeepsTheSource(_ drains: Bool) throws {
        let database = try begin(.complete)
        try database.stepMigration(rows: 3)
        let plain = try Connection(path: folder.file("new.db"))
        try plain.execute("UPDATE midstream_tables SET checksum = checksum + 1")
        plain.close()
        let error = #expect(throws: MigrationError.self) {
            if drains { try database.execute("ALTER TABLE t ADD COLUMN z") } else { try finishMigration(database) }
        }
        #expect(error?.code == .notVerified)
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 6)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 6)
    }

    /// What one of two steppers has counted before the other one moved the rest is no part of the last count.
    @Test(arguments: [MigrationVerification.count, .batches, .complete], [true, false]) func twoMayCountInTurn(
        _ verification: MigrationVerification,
        isWholeCount: Bool
    ) throws {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE s(id INTEGER PRIMARY KEY, a);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO s SELECT i, 'row ' || i FROM n
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "s"
            table.verification = verification
        }
        // One slice.
        try database.stepMigration(budget: .microseconds(1))
        let other = try Database(path: folder.file("new.db"))
        try other.stepMigration(rows: 20000)
        if !isWholeCount { try other.stepMigration(budget: .microseconds(1)) }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM main.t") == 20000)
        #expect(!(try database.readMigrationProgress().isFinished))
        try finishMigration(database)
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 0)
    }

    @Test func whoHasMendedTheSourceHasItCountedAnew() throws {
        let database = try begin(.complete)
        try database.stepMigration(rows: 6)
        let plain = try Connection(path: folder.file("old.db"))
        try plain.configure(.triggers, false)
        try plain.execute("INSERT INTO s(id, a) VALUES (0, 'strange')")
        for _ in 0..<2 {
            let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
            #expect(error?.code == .sourceChanged)
        }
        try plain.execute("DELETE FROM s WHERE id = 0")
        try finishMigration(database)
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 0)
    }
}
