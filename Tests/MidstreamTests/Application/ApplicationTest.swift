import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

/// A test as an application has it for its own code: it knows of a database, and of no migration.
///
/// `FrozenApplicationTests` runs its body on tables that are whole and on tables that are moving. A list of such tests is
/// one subject of the application; it becomes part of the suite in `ApplicationTest.all`.
struct ApplicationTest: Sendable, CustomTestStringConvertible {
    /// What the application can do, as a sentence.
    let name: String
    /// Creates the application's tables, with indexes, views and triggers.
    let schema: String
    /// The tables that move.
    let tables: [String]
    /// Fills these, before anything moves.
    let rows: @Sendable (Connection) throws -> Void
    /// What the application does and expects.
    let body: @Sendable (Database) async throws -> Void

    var testDescription: String { name }

    init(
        _ name: String,
        schema: String,
        tables: [String],
        rows: @escaping @Sendable (Connection) throws -> Void,
        body: @escaping @Sendable (Database) async throws -> Void
    ) {
        (self.name, self.schema, self.tables, self.rows, self.body) = (name, schema, tables, rows, body)
    }

    static let all: [ApplicationTest] = records + blocks + upgrades
}

extension ApplicationTest {
    /// Where the tables' rows are while the body runs.
    enum Share: Sendable, Hashable, CustomTestStringConvertible {
        /// In the tables. There is no migration.
        case whole
        /// That many of 100 have moved.
        case moved(Int)

        static let frozen: [Share] = [.moved(0), .moved(1), .moved(50), .moved(99), .moved(100)]

        var testDescription: String {
            switch self {
            case .whole: "whole"
            case .moved(let percent): "\(percent) %"
            }
        }
    }

    /// Runs the body.
    ///
    /// - Returns: All that the tables hold when it has ended.
    func run(_ share: Share) async throws -> [String] {
        let folder = TemporaryFolder()
        let path = folder.file("application.db")
        let filled = share == .whole ? path : folder.file("before.db")
        for file in Set([path, filled]) {
            let connection = try Connection(path: file)
            try connection.execute(script: schema)
            if file == filled { try connection.transaction { try rows(connection) } }
            connection.close()
        }
        let database = try Database(path: path)
        if case .moved(let percent) = share {
            try database.addMigration(source: .file(filled)) { [tables] table in
                if tables.contains(table.name) { table.sourceTable = table.name }
                table.firesTriggers = false
            }
            try MigrationFreezer(database).move(toPercent: percent)
            #expect(!database.isMigrated)
        }
        try await body(database)
        let found = try contents(database)
        try finishMigration(database)
        #expect(try contents(database) == found, "the end of the migration shows")
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        database.close()
        return found
    }

    private func contents(_ database: Database) throws -> [String] {
        let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        return try database.fetchAll(names).map { try $0.get(0, as: String.self) }
            .filter { !$0.hasPrefix("midstream_") }
            .flatMap { name in [name] + texts(try database.fetchAll("SELECT * FROM \(quoted(name)) ORDER BY 1")) }
    }
}
