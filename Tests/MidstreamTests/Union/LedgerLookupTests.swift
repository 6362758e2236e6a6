import SQLiteConnection
import Testing

@testable import Midstream

/// Midstream finds out by the key whether the ledger has a row.
@Suite struct LedgerLookupTests {
    @Test(arguments: [
        "id INTEGER PRIMARY KEY, k0 TEXT, k1)",
        "k0 TEXT COLLATE NOCASE, id INTEGER, k1, PRIMARY KEY (k0)) WITHOUT ROWID",
        "k1 INTEGER, k0 TEXT COLLATE NOCASE, id, PRIMARY KEY (k1, k0 DESC)) WITHOUT ROWID",
    ])
    func noRowTakesTheWholeLedger(_ columns: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(\(columns)")
        let new = try Database(path: folder.file("new.db"))
        try new.execute("CREATE TABLE t(\(columns)")
        try new.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        new.close()
        let connection = try Connection(path: folder.file("new.db"))
        let (migrations, records) = try StateStore(connection: connection).load()
        try connection.execute("ATTACH ? AS \(migrations[0].schema)", [folder.file("old.db")])
        let target = try #require(try SchemaReader(connection: connection, schema: "main").table("t"))
        let source = try #require(try SchemaReader(connection: connection, schema: migrations[0].schema).table("t"))
        let sql = MoveSQL(record: records[0], migration: migrations[0], target: target, source: source)
        for query in [
            "SELECT count(*) FROM \(sql.source) WHERE \(sql.isUnsettled)", "SELECT \(sql.isSettled) FROM \(sql.source)",
        ] {
            let program = try connection.fetchAll("EXPLAIN " + query).map { $0["opcode"] }
            #expect(program.filter { $0 == .text("Next") || $0 == .text("Prev") }.count == 1, "\(query)")
        }
    }
}
