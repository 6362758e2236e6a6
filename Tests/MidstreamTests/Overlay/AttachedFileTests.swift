import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Files that the application attaches itself: those with tables that move, and sources.
@Suite struct AttachedFileTests {
    private static func isAttached(_ schema: String, _ access: DatabaseAccess) throws -> Bool {
        try access.fetchAll("PRAGMA database_list").contains { $0[1] == .text(schema) }
    }

    private static func expectRefusal(
        _ code: MigrationError.Code,
        _ comment: Comment? = nil,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () throws -> Void
    ) {
        let error = #expect(throws: MigrationError.self, comment, sourceLocation: sourceLocation, performing: body)
        #expect(error?.code == code, comment, sourceLocation: sourceLocation)
    }

    /// A database that has nothing to do with the migration.
    private static func other(_ fixture: MovingFixture) throws -> Database {
        let other = try Database(path: fixture.folder.file("other.db"))
        try other.execute("CREATE TABLE x(y)")
        return other
    }

    // MARK: Files with tables that move

    @Test(arguments: [false, true]) func aFileWithTablesThatMoveIsNotAttached(inTransaction: Bool) throws {
        // Before 3.21, SQLite attaches no file in a transaction.
        guard !inTransaction || Connection.libraryVersionNumber >= 3_021_000 else { return }
        let fixture = try MovingFixture(rows: 100)
        let database = try fixture.open()
        try database.stepMigration(rows: 10)
        let other = try Self.other(fixture)
        func attach(_ access: DatabaseAccess) throws {
            Self.expectRefusal(.unsupported) { try access.execute("ATTACH ? AS aux", [fixture.target]) }
            #expect(try !Self.isAttached("aux", access))
            try access.execute("INSERT INTO x VALUES (1)")
        }
        if inTransaction { try other.write(attach) } else { try other.withoutTransaction(attach) }
        #expect(try other.fetchValue(Int.self, "SELECT count(*) FROM x") == 1)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        try other.withoutTransaction { access in
            try access.execute("ATTACH ? AS aux", [fixture.target])
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM aux.accounts") == 100)
            try access.execute("DETACH aux")
        }
    }

    @Test(.needs(.vacuumInto)) func whatVacuumIntoHasMadeIsAttached() throws {
        let fixture = try MovingFixture(rows: 100)
        let database = try fixture.open()
        try database.stepMigration(rows: 10)
        try database.withoutTransaction { access in
            try access.execute("VACUUM INTO ?", [fixture.folder.file("copy.db")])
            try access.execute("ATTACH ? AS copy", [fixture.folder.file("copy.db")])
            #expect(try access.fetchValue(Int64.self, "SELECT sum(amount) FROM copy.accounts") == fixture.total)
            try access.execute("UPDATE copy.accounts SET amount = 1; DELETE FROM accounts WHERE id > 50")
            #expect(try access.fetchValue(Int64.self, "SELECT sum(amount) FROM copy.accounts") == 100)
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM accounts") == 50)
            try access.execute("DETACH copy")
        }
    }

    @Test func aTargetIsNotAttachedToItself() throws {
        let fixture = try MovingFixture(rows: 100)
        let database = try fixture.open()
        try database.stepMigration(rows: 10)
        Self.expectRefusal(.unsupported) { try database.execute("ATTACH ? AS again", [fixture.target]) }
        try database.execute("UPDATE accounts SET amount = amount + 1")
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total + 100)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total + 100)
    }

    @Test(arguments: [
        "SELECT count(*) FROM aux.accounts", "DELETE FROM aux.accounts", "VACUUM aux", "BEGIN", "SELECT y FROM x",
    ])
    func oneThatWasAttachedBeforeItsTablesBeganToMoveMustBeDetached(_ sql: String) throws {
        let fixture = try MovingFixture(rows: 100)
        let other = try Self.other(fixture)
        try other.withoutTransaction { access in
            try access.execute("ATTACH ? AS aux", [fixture.target])
            // A statement that was kept is checked again.
            for _ in 0..<2 { #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM aux.accounts") == 0) }
            let database = try fixture.open()
            try database.stepMigration(rows: 10)
            Self.expectRefusal(.unsupported) {
                try access.execute(sql)
                try access.execute("UPDATE aux.accounts SET amount = 0")
            }
            if access.isInTransaction { try access.execute("ROLLBACK") }
            Self.expectRefusal(.unsupported) { _ = try access.fetchAll("SELECT count(*) FROM aux.accounts") }
            try access.execute("DETACH aux")
            try access.execute("INSERT INTO x VALUES (1)")
            #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        }
        Self.expectRefusal(.unsupported) { try other.execute("ATTACH ? AS aux", [fixture.target]) }
        try other.write { try $0.execute("INSERT INTO x VALUES (2)") }
    }

    @Test func aBlockDoesNotBeginBesideOne() throws {
        let fixture = try MovingFixture(rows: 100)
        let other = try Self.other(fixture)
        try other.execute("ATTACH ? AS aux", [fixture.target])
        let database = try fixture.open()
        try database.stepMigration(rows: 10)
        Self.expectRefusal(.unsupported) { try other.write { try $0.execute("DELETE FROM aux.accounts") } }
        try finishMigration(database)
        try other.write { try $0.execute("UPDATE aux.accounts SET amount = 1") }
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == 100)
    }

    @Test func aConnectionOfOtherCodeIsToldOfOne() throws {
        let fixture = try MovingFixture(rows: 100)
        let database = try fixture.open()
        try database.stepMigration(rows: 10)
        let foreign = try ForeignConnection(fixture.folder.file("other.db"))
        let overlay = try foreign.install()
        Self.expectRefusal(.unsupported) { try overlay.execute("ATTACH ? AS aux", [fixture.target]) }
        try foreign.execute("ATTACH '\(fixture.target)' AS aux")
        Self.expectRefusal(.unsupported) { try overlay.refresh() }
        Self.expectRefusal(.unsupported) { try overlay.execute("UPDATE aux.accounts SET amount = 0") }
        try overlay.execute("DETACH aux")
        try overlay.refresh()
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    // MARK: Sources

    @Test(arguments: [
        "DROP TABLE o.old_accounts", "ALTER TABLE O.old_accounts RENAME TO older",
        "ALTER TABLE \"o\".\"OLD_accounts\" ADD COLUMN z",
    ])
    func anAttachedSourceIsNeitherDroppedNorAltered(_ sql: String) throws {
        let fixture = try MovingFixture(rows: 100)
        let database = try fixture.open()
        try database.stepMigration(rows: 10)
        for connection in [database, try Self.other(fixture)] {
            try connection.execute("ATTACH ? AS o", [fixture.source])
            Self.expectRefusal(.refusedStatement) { try connection.execute(sql) }
            // A file that is no source is left to SQLite.
            try connection.execute("CREATE TABLE o.z(a); ALTER TABLE o.z ADD COLUMN b; DROP TABLE o.z; DETACH o")
        }
        let other = try Database(path: fixture.folder.file("other.db"))
        try other.execute("ATTACH ? AS o", [fixture.source])
        Self.expectRefusal(.refusedStatement) { try other.execute("DROP TABLE old_accounts") }
        other.close()
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    @Test(arguments: [true, false]) func aSourceWhoseRowIDsVacuumWouldChangeIsNotVacuumed(isKey: Bool) throws {
        let folder = TemporaryFolder()
        let columns = isKey ? "(id INTEGER PRIMARY KEY, a)" : "(id INTEGER, a)"
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        let plain = try Connection(path: old)
        try plain.execute(script: "CREATE TABLE s\(columns)")
        try plain.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO s SELECT i, i FROM n"
        )
        try plain.execute("DELETE FROM s WHERE id % 2 = 1")
        plain.close()
        let database = try Database(path: new)
        try database.execute("CREATE TABLE s\(columns)")
        try database.addMigration(source: .file(old)) { $0.sourceTable = $0.name }
        try database.stepMigration(rows: 4)
        let source = try Database(path: old)
        let other = try Database(path: folder.file("other.db"))
        try other.execute("ATTACH ? AS o", [old])
        for (connection, sql) in [(source, "VACUUM"), (source, "VACUUM main"), (other, "VACUUM o")] {
            if isKey {
                try connection.execute(sql)
            } else {
                Self.expectRefusal(.refusedStatement, "\(sql)") { try connection.execute(sql) }
            }
        }
        try other.execute("VACUUM")
        try other.execute("DETACH o")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) * 1000 + sum(a) FROM s") == 10_110)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) * 1000 + sum(a) FROM s") == 10_110)
        try source.execute("VACUUM")
    }
}
