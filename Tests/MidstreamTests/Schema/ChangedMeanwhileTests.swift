import SQLiteConnection
import Testing

@testable import Midstream

/// Several statements read parts of a schema that another connection changes meanwhile.
@Suite struct ChangedMeanwhileTests {
    @Test func theLastClaimIsWithdrawnWhileAnotherReads() async throws {
        try await change(
            [
                "CREATE TABLE midstream_claims(id INTEGER PRIMARY KEY, source_table, target_file, target_table, condition, moved, "
                    + "target_version, first_rowid, last_rowid, undo_stage, undo_writes, dropped DEFAULT 0, droppable DEFAULT 0)",
                "DROP TABLE midstream_claims",
            ]
        ) { reader in
            let claims = try Claims.all(in: "main", reader)
            try #require(claims.isEmpty)
        }
    }

    @Test func aTableIsDescribedWhileAViewTakesItsPlace() async throws {
        try await change(
            [
                "CREATE TABLE t(a INTEGER PRIMARY KEY, b)", "CREATE INDEX i ON t(b)", "BEGIN", "DROP TABLE t",
                "CREATE VIEW t AS SELECT NULL AS a, NULL AS b WHERE 0", "COMMIT", "DROP VIEW t",
            ]
        ) {
            guard let table = try SchemaReader(connection: $0, schema: "main").table("t") else { return }
            try #require(table.columns.map(\.name) == ["a", "b"])
        }
    }

    @Test func anotherTargetClaimsAPartWhileWhoseATableIsIsAsked() async throws {
        let migration = MigrationRecord(id: 1, sourcePath: "old.db")
        let record = TableRecord(
            id: 2,
            migration: 1,
            target: "t",
            source: "t",
            condition: "x = 1",
            phase: .starting,
            copied: 0,
            settled: 0
        )
        try await change(
            [
                "CREATE TABLE IF NOT EXISTS t(x)", "BEGIN",
                "CREATE TABLE midstream_claims(id INTEGER PRIMARY KEY, source_table, target_file, target_table, condition, moved, "
                    + "target_version, first_rowid, last_rowid, undo_stage, undo_writes, dropped DEFAULT 0, droppable DEFAULT 0)",
                "INSERT INTO midstream_claims(id, source_table, target_file, target_table, condition) VALUES (3, 't', 'a.db', 't', 'x = 0')",
                "CREATE TRIGGER midstream_fence_insert_3 BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'table t is moving'); END",
                "COMMIT", "BEGIN", "DROP TABLE midstream_claims", "DROP TRIGGER midstream_fence_insert_3", "COMMIT",
            ]
        ) { reader in
            if reader.fileName(schema: migration.schema) == nil {
                try reader.execute("ATTACH ? AS \(migration.schema)", [reader.fileName(schema: "main")])
            }
            try Claims(connection: reader, migration: migration).checkOwners(record)
        }
    }

    /// Changes a file's schema again and again while another connection reads it many times.
    private func change(_ statements: [String], while body: @escaping @Sendable (Connection) throws -> Void)
        async throws
    {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute("PRAGMA journal_mode = WAL")
        let threads = Threads()
        threads.start("changing") { threads in
            let source = try Connection(path: folder.file("old.db"))
            try source.execute("PRAGMA busy_timeout = 10000")
            while !threads.isOver { for statement in statements { try source.execute(statement) } }
        }
        threads.start("reading") { threads in
            defer { threads.end() }
            let reader = try Connection(path: folder.file("old.db"))
            try reader.execute("PRAGMA busy_timeout = 10000")
            for _ in 0..<2000 { try body(reader) }
        }
        await threads.join()
    }
}
