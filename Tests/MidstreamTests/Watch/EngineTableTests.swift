import Midstream
import SQLiteConnection
import Testing

/// Statements of the application's on the engine's own tables, as by code that erases all that a file has.
@Suite struct EngineTableTests {
    private func halfMoved() throws -> (MovingFixture, Database) {
        let fixture = try MovingFixture(rows: 100)
        let database = try fixture.open()
        try database.stepMigration(rows: 40)
        try database.execute("UPDATE accounts SET amount = amount WHERE id = 90")
        return (fixture, database)
    }

    private static let changes = [
        "DELETE FROM %", "DROP TABLE %", "DELETE FROM % WHERE 0", "ALTER TABLE % RENAME TO other",
        "INSERT INTO % DEFAULT VALUES",
    ]

    @Test(arguments: changes) func noneThatTellsOfRowsIsChanged(_ change: String) throws {
        let (fixture, database) = try halfMoved()
        let names = try database.fetchAll(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'midstream\\_%' ESCAPE '\\'"
        ).map { try $0.get(0, as: String.self) }
        #expect(names.count >= 5)
        for name in names {
            for spelled in [name, "main.\(name)", name.uppercased()] {
                let text = change.replacing("%", with: spelled)
                let error = #expect(throws: SQLiteError.self) { try database.execute(text) }
                #expect(error?.code == .authorization, "\(text): \(String(describing: error))")
                #expect(error?.message.contains("begin with midstream_") == true)
            }
        }
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        #expect(try database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
    }

    /// A program without Midstream erases what it finds.
    @Test(arguments: ["state", "migrations", "tables", "ledger_%"], ["DROP TABLE", "DELETE FROM"])
    func whatIsLeftOfATableIsNotTakenForAllOfIt(_ name: String, _ change: String) throws {
        // Of single rows nobody knows.
        if name == "ledger_%", change == "DELETE FROM" { return }
        let (fixture, database) = try halfMoved()
        let sum = "SELECT sum(amount) FROM accounts"
        #expect(try database.fetchValue(Int64.self, sum) == fixture.total)
        let plain = try Connection(path: fixture.target)
        let table: String = try #require(
            try plain.fetchValue(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?",
                ["midstream_\(name)"]
            )
        )
        try plain.execute("\(change) \(table)")
        let statements = [sum, "UPDATE accounts SET amount = amount WHERE id = 80 RETURNING amount"]
        for sql in statements {
            // Who knows of it already may go on.
            guard let rows = try? database.fetchAll(sql) else { continue }
            #expect(texts(rows) == [sql == sum ? "\(fixture.total)" : "100"], "\(sql)")
        }
        database.close()
        guard let next = try? Database(path: fixture.target) else { return }
        for sql in statements { #expect(throws: (any Error).self, "\(sql), opened anew") { try next.fetchAll(sql) } }
    }

    /// As by code that drops all triggers, to make them anew, or detaches all files that it finds attached.
    @Test(arguments: [false, true]) func triggersAndSourcesStay(_ isInBlock: Bool) throws {
        let (fixture, database) = try halfMoved()
        func run(_ sql: String) throws {
            if isInBlock { try database.write { try $0.execute(sql) } } else { try database.execute(sql) }
        }
        let triggers = try database.fetchAll("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            .map { try $0.get(0, as: String.self) }
        #expect(triggers.count == 3)
        var statements = triggers.flatMap {
            ["DROP TRIGGER \($0)", "DROP TRIGGER IF EXISTS main.\"\($0.uppercased())\""]
        }
        let source = try database.fetchAll("PRAGMA database_list").map { try $0.get(1, as: String.self) }
            .first { $0.hasPrefix("midstream") }
        let name = try #require(source)
        statements += ["DETACH \(name)", "DETACH DATABASE \"\(name)\"", "DETACH '\(name)'"]
        for sql in statements {
            let error = #expect(throws: SQLiteError.self) { try run(sql) }
            #expect(error?.code == .authorization, "\(sql): \(String(describing: error))")
        }
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    @Test func aTriggerChangesNoneEither() throws {
        let (fixture, database) = try halfMoved()
        try database.execute("CREATE TABLE log(a)")
        try database.execute(
            "CREATE TRIGGER erase AFTER INSERT ON log BEGIN DELETE FROM midstream_tables; END"
        )
        let error = #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO log VALUES (1)") }
        #expect(error?.code == .authorization)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    @Test func theRestMayBeErased() throws {
        let (fixture, database) = try halfMoved()
        try database.write { access in
            for row in try access.fetchAll("SELECT name FROM sqlite_master WHERE type = 'table'") {
                let name: String = try row.get(0)
                if !name.hasPrefix("midstream_"), !name.hasPrefix("sqlite_") {
                    try access.execute("DELETE FROM \(name)")
                }
            }
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 0)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 0)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 0)
    }

    /// A pragma without a schema is of all attached files, and a source is attached that cannot be written.
    @Test func pragmasOfAllFilesLeaveTheSourceOut() throws {
        let fixture = try MovingFixture(rows: 100)
        let old = try Connection(path: fixture.source)
        try old.execute("PRAGMA journal_mode = WAL")
        let database = try fixture.open()
        try database.stepMigration(rows: 40)
        try database.withoutTransaction { access in
            for mode in ["", "(PASSIVE)", "(FULL)", "(RESTART)", "(TRUNCATE)"] {
                let row = try #require(try access.fetchOne("PRAGMA wal_checkpoint\(mode)"))
                #expect(row[0] == .integer(0), "\(mode)")
            }
            #expect(try access.fetchOne("PRAGMA journal_mode")?[0] == .text("wal"))
            #expect(try access.fetchOne("PRAGMA journal_mode = WAL")?[0] == .text("wal"))
            #expect(try access.fetchOne("PRAGMA journal_size_limit = 100000")?[0] == .integer(100_000))
        }
        #expect(try old.fetchValue(String.self, "PRAGMA journal_mode") == "wal")
        try finishMigration(database)
    }

    /// The state is needed until the source has been retired, and no row is to come any more.
    @Test(arguments: ["DELETE FROM midstream_tables", "DROP TABLE midstream_tables", "DROP TABLE midstream_state"])
    func noneIsChangedOnceAllRowsHaveCome(_ change: String) throws {
        for isInTransaction in [false, true] {
            let (fixture, database) = try halfMoved()
            let drain = "CREATE TRIGGER a AFTER INSERT ON accounts BEGIN SELECT 1; END"
            if !isInTransaction { try database.execute(drain) }
            try database.write { access in
                if isInTransaction { try access.execute(drain) }
                let error = #expect(throws: SQLiteError.self) { try access.execute(change) }
                #expect(error?.code == .authorization, "\(String(describing: error))")
            }
            #expect(database.migrationStatistics.drains(of: "accounts") == 1)
            try finishMigration(database)
            #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        }
    }

    @Test(arguments: ["DELETE FROM sqlite_master WHERE name LIKE 'midstream%'", "UPDATE sqlite_master SET sql = ''"])
    func theSchemaIsNotWritten(_ change: String) throws {
        let (fixture, database) = try halfMoved()
        try database.execute("PRAGMA writable_schema = 1")
        let error = #expect(throws: SQLiteError.self) { try database.execute(change) }
        #expect(error?.code == .authorization, "\(String(describing: error))")
        try database.execute("PRAGMA writable_schema = 0")
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }
}
