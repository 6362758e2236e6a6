import Midstream
import SQLiteConnection
import Testing

/// There are so many tables that their triggers, and the union tables of a connection, are written into the schema at
/// once.
@Suite struct WrittenSchemaTests {
    private static let count = 60

    /// Names that must be quoted, and keys of all kinds.
    private static func name(_ number: Int) -> String { number % 3 == 0 ? "t \"\(number)\"" : "t\(number)" }

    private static func definition(_ number: Int) -> String {
        let name = "\"\(name(number).replacing("\"", with: "\"\""))\""
        return switch number % 3 {
        case 0: "CREATE TABLE \(name)(id INTEGER PRIMARY KEY, a TEXT DEFAULT 'it''s' UNIQUE, b)"
        case 1: "CREATE TABLE \(name)(k TEXT, l, PRIMARY KEY (k, l)) WITHOUT ROWID"
        default: "CREATE TABLE \(name)(id INTEGER PRIMARY KEY, a, b)"
        }
    }

    private static func quoted(_ number: Int) -> String { "\"\(name(number).replacing("\"", with: "\"\""))\"" }

    private static func values(_ number: Int, _ row: Int) -> String {
        number % 3 == 1 ? "('k\(row)', \(number))" : "(\(row), 'a\(row)', \(number))"
    }

    private let folder = TemporaryFolder()

    private func make(_ numbers: some Sequence<Int>, _ suffix: String = "") throws -> (source: String, target: Database)
    {
        let source = folder.file("old\(suffix).db")
        let plain = try Connection(path: source)
        let database = try Database(path: folder.file("new\(suffix).db"))
        for number in numbers {
            try plain.execute(Self.definition(number))
            try database.execute(Self.definition(number))
            for row in 1...3 {
                try plain.execute("INSERT INTO \(Self.quoted(number)) VALUES \(Self.values(number, row))")
            }
        }
        plain.close()
        try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name }
        return (source, database)
    }

    /// The triggers of a file, without the numbers in them.
    private func triggers(_ path: String) throws -> Set<String> {
        let plain = try Connection(path: path)
        defer { plain.close() }
        return Set(
            try plain.fetchAll("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'").map { row in
                let texts = try (0..<3).map { try row.get($0, as: String.self) }
                return texts.joined(separator: " ").replacing(#/[0-9]{10,}/#, with: "N")
            }
        )
    }

    @Test func theirTriggersAreWhatSQLiteStores() throws {
        let all = try make(0..<Self.count)
        let few = try make(0..<3, "-few")
        let (made, native) = (
            (source: try triggers(all.source), target: try triggers(all.target.path)),
            (source: try triggers(few.source), target: try triggers(few.target.path))
        )
        #expect(made.source.count == 3 * Self.count && made.target.count == 3 * Self.count)
        #expect(native.target.isSubset(of: made.target))
        #expect(native.source.isSubset(of: Set(made.source.map { $0.replacing("new.db", with: "new-few.db") })))
    }

    @Test func nobodyElseWritesThem() throws {
        let (source, database) = try make(0..<Self.count)
        for path in [source, database.path] {
            let plain = try Connection(path: path)
            defer { plain.close() }
            for number in [0, 1, 2, Self.count - 1] {
                for write in [
                    "INSERT INTO \(Self.quoted(number)) VALUES \(Self.values(number, 9))",
                    "DELETE FROM \(Self.quoted(number))",
                ] {
                    #expect(throws: SQLiteError.self) { try plain.execute(write) }
                }
            }
            #expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        }
    }

    @Test func theyAreReadAndWrittenWhole() throws {
        let (_, database) = try make(0..<Self.count)
        for number in 0..<Self.count {
            let table = Self.quoted(number)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM \(table)") == 3)
            try database.write { access in
                try access.execute("INSERT INTO \(table) VALUES \(Self.values(number, 9))")
                #expect(throws: SQLiteError.self) {
                    try access.execute("INSERT INTO \(table) VALUES \(Self.values(number, 2))")
                }
            }
        }
        // The connections of another database find so many tables at once.
        let other = try Database(path: database.path)
        for number in [0, 1, 2, Self.count - 1] {
            #expect(try other.fetchValue(Int.self, "SELECT count(*) FROM \(Self.quoted(number))") == 4)
        }
        other.close()
        try finishMigration(database)
        for number in 0..<Self.count {
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM main.\(Self.quoted(number))") == 4)
        }
        let left = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'midstream%'"
        #expect(try database.fetchValue(Int.self, left) == 0)
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
    }

    /// The definitions of the union tables are a part of `temp`. A rollback brings them back, and a change of the
    /// schema makes Midstream write them anew.
    @Test func changesOfTheSchemaAndRollbacksLeaveThemWhole() throws {
        let (_, database) = try make(0..<Self.count)
        try database.withoutTransaction { access in
            for end in ["ROLLBACK", "COMMIT"] {
                try access.execute("BEGIN")
                try access.execute("CREATE TABLE other_\(end)(a)")
                #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t2") == 3)
                try access.execute(end)
                for number in [0, 1, 2, Self.count - 1] {
                    #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM \(Self.quoted(number))") == 3)
                }
            }
            try access.execute("ALTER TABLE other_COMMIT ADD COLUMN b")
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t2") == 3)
        }
        try database.cancelMigration()
        while try !database.stepMigration().isFinished {}
        let plain = try Connection(path: folder.file("old.db"))
        #expect(try plain.fetchValue(Int.self, "SELECT count(*) FROM t2") == 3)
        #expect(try plain.fetchValue(Int.self, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'") == 0)
    }
}
