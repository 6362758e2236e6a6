import Midstream
import SQLText
import SQLiteConnection
import Testing

/// A database that is upgraded, and a plain one that SQLite alone changes offline in the same way: create, copy, drop,
/// rename.
final class UpgradePair {
    let folder = TemporaryFolder()
    let native: Connection
    private(set) var database: Database
    private let configuration: DatabaseConfiguration

    var path: String { folder.file("app.db") }

    /// - Parameter schema: Makes tables and rows, on both sides.
    init(_ schema: String, configuration: DatabaseConfiguration = DatabaseConfiguration()) throws {
        self.configuration = configuration
        let plain = try Connection(path: folder.file("app.db"))
        try plain.execute(script: schema)
        plain.close()
        native = try Connection(path: folder.file("plain.db"))
        try native.execute(script: schema)
        if configuration.enforcesForeignKeys { try native.configure(.foreignKeys, true) }
        database = try Database(path: folder.file("app.db"), configuration: configuration)
    }

    /// Closes the database, and opens it as the next launch does.
    func reopen() throws {
        database.close()
        database = try Database(path: path, configuration: configuration)
    }

    /// Runs a statement on both sides, and expects the same outcome.
    func execute(_ sql: String, _ location: SourceLocation = #_sourceLocation) throws {
        let error = outcome { try native.execute(script: sql) }
        let other = outcome { try database.execute(sql) }
        #expect(other == error, "\(sql)", sourceLocation: location)
        expectSame(location)
    }

    private func outcome(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch let error as SQLiteError {
            return error.message
        } catch {
            return "\(error)"
        }
    }

    /// Gives a table another shape offline, as SQLite's manual describes.
    func rebuildNatively(_ table: String, _ schema: String, _ columns: String, from values: String) throws {
        try Self.rebuild(native, table, schema, columns, from: values)
    }

    static func rebuild(
        _ connection: Connection,
        _ table: String,
        _ schema: String,
        _ columns: String,
        from values: String
    ) throws {
        let enforces = try connection.fetchValue(Int64.self, "PRAGMA foreign_keys") == 1
        try connection.configure(.foreignKeys, false)
        try connection.execute("PRAGMA legacy_alter_table = 1")
        let dependents = try connection.fetchAll(
            "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql NOT NULL "
                + "ORDER BY rowid",
            [table]
        )
        try connection.transaction {
            for row in dependents {
                try connection.execute("DROP \(row.get("type", as: String.self)) \(row.get("name", as: String.self))")
            }
            try connection.execute(schema.replacing("CREATE TABLE \(table)", with: "CREATE TABLE \(table)_new"))
            try connection.execute("INSERT INTO \(table)_new(\(columns)) SELECT \(values) FROM \(table)")
            let sequence = try connection.fetchOne("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'")
            if sequence != nil {
                try connection.execute(
                    "UPDATE sqlite_sequence SET seq = max(seq, (SELECT seq FROM sqlite_sequence WHERE name = '\(table)')) "
                        + "WHERE name = '\(table)_new' AND EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '\(table)')"
                )
            }
            try connection.execute("DROP TABLE \(table)")
            try connection.execute("ALTER TABLE \(table)_new RENAME TO \(table)")
            for row in dependents { try connection.execute(row.get("sql", as: String.self)) }
        }
        try connection.execute("PRAGMA legacy_alter_table = 0")
        if enforces { try connection.configure(.foreignKeys, true) }
    }

    // MARK: Comparing

    /// Compares all rows of all tables and views.
    func expectSame(_ location: SourceLocation = #_sourceLocation) {
        do {
            let names = try native.fetchAll(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
            ).map { try $0.get(0, as: String.self) }
            for name in names {
                let sql = "SELECT * FROM \(SQLIdentifier.quoted(name))"
                let (mine, other) = (texts(try database.fetchAll(sql)), texts(try native.fetchAll(sql)))
                if mine.sorted() != other.sorted() {
                    let surplus = Set(mine).subtracting(other).sorted().prefix(3)
                    let missing = Set(other).subtracting(mine).sorted().prefix(3)
                    Issue.record(
                        "\(name): \(mine.count) rows for \(other.count); surplus \(surplus), missing \(missing)",
                        sourceLocation: location
                    )
                }
            }
        } catch {
            Issue.record("\(error)", sourceLocation: location)
        }
    }

    /// The definitions of all objects except Midstream's own.
    static func schema(_ connection: Connection) throws -> [String] {
        try connection.fetchAll("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master").map { row in
            try ["type", "name", "tbl_name"].map { try row.get($0, as: String.self) }.joined(separator: " ") + ": "
                + CreateTable.words(row.get(3))
        }.filter { !$0.contains(" midstream_upgrades") }.sorted()
    }

    /// Moves everything, and expects the file to have what the offline one has.
    func finish(_ location: SourceLocation = #_sourceLocation) throws {
        try finishMigration(database)
        expectSame(location)
        database.close()
        let plain = try Connection(path: path)
        defer { plain.close() }
        #expect(try Self.schema(plain) == Self.schema(native), sourceLocation: location)
        #expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok", sourceLocation: location)
        #expect(
            texts(try plain.fetchAll("PRAGMA foreign_key_check"))
                == texts(try native.fetchAll("PRAGMA foreign_key_check")),
            sourceLocation: location
        )
        let hasSequence = try native.fetchOne("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'") != nil
        if hasSequence {
            let sequences = "SELECT name, seq FROM sqlite_sequence ORDER BY name"
            #expect(
                texts(try plain.fetchAll(sequences)) == texts(try native.fetchAll(sequences)),
                sourceLocation: location
            )
        }
    }
}
