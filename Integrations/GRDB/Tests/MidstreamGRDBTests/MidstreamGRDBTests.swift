import Foundation
import GRDB
import MidstreamGRDB
import SnapshotStubs
import Testing

import class Midstream.Database

private typealias Mover = Midstream.Database

private struct Team: Codable, FetchableRecord, PersistableRecord, Equatable {
    static let databaseTableName = "team"
    static let players = hasMany(Player.self)
    var code: String
    var name: String
}

private struct Player: Codable, FetchableRecord, PersistableRecord, Equatable {
    static let databaseTableName = "player"
    static let team = belongsTo(Team.self)
    var id: String
    var email: String
    var teamCode: String?
    var score: Int
}

/// A target into which two tables move, with some of the rows moved.
private final class Fixture {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("midstream-grdb-\(UUID().uuidString)")
    let mover: Mover
    private static let schema = """
        CREATE TABLE team(code TEXT PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE player(
            id TEXT PRIMARY KEY, email TEXT NOT NULL UNIQUE,
            teamCode TEXT REFERENCES team(code) ON DELETE CASCADE ON UPDATE CASCADE, score INTEGER NOT NULL);
        CREATE INDEX playerOnTeam ON player(teamCode);
        """

    init(moved: Int64 = 80) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let old = try DatabaseQueue(path: folder.appendingPathComponent("old.db").path)
        try old.write { db in
            try db.execute(sql: Self.schema)
            for team in 0..<5 { try Team(code: "t\(team)", name: "Team \(team)").insert(db) }
            for player in 0..<200 {
                try Player(id: "p\(player)", email: "e\(player)@x", teamCode: "t\(player % 5)", score: player).insert(
                    db
                )
            }
        }
        try old.close()
        mover = try Mover(path: folder.appendingPathComponent("new.db").path)
        try mover.execute(Self.schema)
        try mover.addMigration(source: .file(folder.appendingPathComponent("old.db").path)) { table in
            if ["player", "team"].contains(table.name) { table.sourceTable = table.name }
        }
        try mover.stepMigration(rows: moved)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    var path: String { folder.appendingPathComponent("new.db").path }

    var configuration: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        configuration.installMigrationOverlay()
        return configuration
    }

    func finish() throws { while try !mover.stepMigration().isFinished {} }
}

@Suite struct MidstreamGRDBTests {
    private static let kinds = ["queue", "pool"]

    private static func open(_ kind: String, _ fixture: Fixture) throws -> any DatabaseWriter {
        if kind == "queue" { return try DatabaseQueue(path: fixture.path, configuration: fixture.configuration) }
        return try DatabasePool(path: fixture.path, configuration: fixture.configuration)
    }

    private static func refresh(_ writer: any DatabaseWriter) throws {
        try (writer as? DatabaseQueue)?.refreshMigrationOverlay()
        try (writer as? DatabasePool)?.refreshMigrationOverlay()
    }

    private static func uninstall(_ writer: any DatabaseWriter) throws {
        try (writer as? DatabaseQueue)?.uninstallMigrationOverlay()
        try (writer as? DatabasePool)?.uninstallMigrationOverlay()
    }

    @Test(arguments: kinds) func recordsAreReadAndWrittenWhole(_ kind: String) throws {
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        try writer.write { (db: GRDB.Database) throws in
            #expect(try Player.fetchCount(db) == 200)
            #expect(try Player.fetchOne(db, key: "p150")?.score == 150)
            #expect(try Player.fetchOne(db, key: ["email": "e170@x"])?.id == "p170")
            #expect(try Player.deleteOne(db, key: "p160"))
            var player = try #require(try Player.fetchOne(db, key: "p151"))
            player.score = -1
            try player.update(db)
            try Player(id: "p152", email: "e152@x", teamCode: "t2", score: -2).save(db)
            #expect(try Player.filter(Column("score") < 0).fetchCount(db) == 2)
            #expect(try Player.including(required: Player.team).fetchCount(db) == 199)
            #expect(try Team(code: "t1", name: "").request(for: Team.players).fetchCount(db) == 40)
        }
        #expect(try writer.read { try Player.fetchCount($0) } == 199)
    }

    /// GRDB enforces foreign keys.
    @Test(arguments: kinds) func foreignKeysActOnAllRows(_ kind: String) throws {
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        let error = #expect(throws: DatabaseError.self) {
            try writer.write { try Player(id: "x", email: "x", teamCode: "none", score: 0).insert($0) }
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        try writer.write { (db: GRDB.Database) throws in
            try Player(id: "x", email: "x", teamCode: "t4", score: 0).insert(db)
            #expect(try Team.deleteOne(db, key: "t3"))
            try db.execute(sql: "UPDATE team SET code = 'new' WHERE code = 't2'")
        }
        try writer.read { (db: GRDB.Database) throws in
            #expect(try Player.fetchCount(db) == 161)
            #expect(try Player.filter(Column("teamCode") == "new").fetchCount(db) == 40)
        }
    }

    @Test(arguments: kinds) func upsertsAndFetchesAreGRDBs(_ kind: String) throws {
        #expect(Preparing.isInPlace)
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        try writer.write { (db: GRDB.Database) throws in
            for id in ["p3", "p150", "fresh"] {
                try Player(id: id, email: "\(id)@y", teamCode: "t0", score: -7).upsert(db)
            }
            let changed = Player(id: "p150", email: "p150@y", teamCode: "t0", score: -7)
            #expect(try Player.fetchOne(db, key: "p150") == changed)
            // The row that is there keeps its key.
            let upserted = try Player(id: "other", email: "e198@x", teamCode: nil, score: -9)
                .upsertAndFetch(db, onConflict: ["email"], doUpdate: { _ in [Column("id").noOverwrite] })
            #expect(upserted == Player(id: "p198", email: "e198@x", teamCode: nil, score: -9))
            let inserted = try Player(id: "p999", email: "z", teamCode: "t1", score: 5).insertAndFetch(db)
            #expect(inserted.id == "p999")
            var player = try #require(try Player.fetchOne(db, key: "p170"))
            player.score = -20
            #expect(try player.updateAndFetch(db) == player)
            #expect(try player.saveAndFetch(db) == player)
            let updated = try Player.filter(Column("score") == -7).updateAndFetchAll(db, [Column("score") -= 1])
            #expect(Set(updated.map(\.id)) == ["p3", "p150", "fresh"])
            #expect(Set(updated.map(\.score)) == [-8])
            let deleted = try Player.filter(Column("score") < -7).deleteAndFetchAll(db)
            #expect(Set(deleted.map(\.id)) == ["p3", "p150", "fresh", "p198", "p170"])
            #expect(try Player.fetchCount(db) == 197)
        }
        #expect(try writer.read { try Player.fetchCount($0) } == 197)
    }

    /// Rows are chosen once, so they must be in one place.
    @Test(arguments: kinds) func whatMustMoveFirstRunsThroughTheOverlay(_ kind: String) throws {
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        let sql =
            "DELETE FROM player WHERE id IN (SELECT id FROM player ORDER BY random() LIMIT ?) RETURNING score, id, NULL AS score"
        try writer.write { (db: GRDB.Database) throws in
            let refused = #expect(throws: DatabaseError.self) { try db.execute(sql: sql, arguments: [3]) }
            #expect(refused?.message?.contains("RETURNING") ?? false)
            let rows = try db.fetchAllThroughOverlay(sql: sql, arguments: [3])
            #expect(rows.count == 3)
            for row in rows {
                #expect(Array(row.columnNames) == ["score", "id", "score"])
                #expect((row[1] as String).hasPrefix("p"))
                #expect((row[2] as Int?) == nil)
            }
        }
        #expect(try writer.read { try Player.fetchCount($0) } == 197)
    }

    @Test(arguments: kinds) func errorsAreGRDBs(_ kind: String) throws {
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        let error = #expect(throws: DatabaseError.self) {
            try writer.write { db in
                try db.executeThroughOverlay(sql: "INSERT INTO player VALUES ('p150', 'x', NULL, 0)")
            }
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_PRIMARYKEY)
        // GRDB ends the access if the transaction has ended in it.
        let aborted = #expect(throws: DatabaseError.self) {
            try writer.write { db in
                try? db.execute(sql: "INSERT OR ROLLBACK INTO player VALUES ('p150', 'x', NULL, 0)")
                try db.executeThroughOverlay(sql: "DELETE FROM player")
            }
        }
        #expect(aborted?.resultCode == .SQLITE_ABORT)
        #expect(try writer.read { try Player.fetchCount($0) } == 200)
    }

    @Test(.timeLimit(.minutes(1)), arguments: kinds) func observersAreTold(_ kind: String) async throws {
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        let observation = ValueObservation.tracking { try Player.filter(Column("score") == -7).fetchCount($0) }
            .removeDuplicates()
        var counts: [Int] = []
        for try await count in observation.values(in: writer) {
            counts.append(count)
            switch counts.count {
            case 1:
                try await writer.write {
                    try Player(id: "p150", email: "q", teamCode: nil, score: -7).upsert($0)
                }
            case 2:
                try await writer.write {
                    try $0.execute(sql: "UPDATE player SET score = -7 WHERE id IN ('p1', 'p199')")
                }
            case 3:
                // Outside a transaction.
                try await writer.writeWithoutTransaction { db in
                    _ = try db.fetchAllThroughOverlay(sql: "DELETE FROM player WHERE id = 'p1' RETURNING id")
                }
            default: break
            }
            if counts.count == 4 { break }
        }
        #expect(counts == [0, 1, 3, 2])
    }

    @Test(arguments: kinds) func theOverlayGoesWhenTheTablesHaveMoved(_ kind: String) throws {
        let fixture = try Fixture()
        let writer = try Self.open(kind, fixture)
        #expect(try writer.read { try Player.fetchCount($0) } == 200)
        try fixture.finish()
        #expect(try writer.read { try Player.fetchCount($0) } == 200)
        try Self.refresh(writer)
        try writer.write { (db: GRDB.Database) throws in
            try Player(id: "p150", email: "e150@x", teamCode: "t0", score: 1).upsert(db)
            #expect(db.migrationOverlay?.movingTables == [])
        }
        #expect(try writer.read { try Player.fetchCount($0) } == 200)
        try Self.uninstall(writer)
        try writer.write { (db: GRDB.Database) throws in
            #expect(db.migrationOverlay == nil)
            try Player(id: "p151", email: "e151@x", teamCode: "t0", score: -5).upsert(db)
            #expect(try Player.fetchOne(db, key: "p151")?.score == -5)
        }
        try Self.refresh(writer)
        try writer.write { (db: GRDB.Database) throws in #expect(db.migrationOverlay != nil) }
    }

    @Test(.timeLimit(.minutes(1)), arguments: kinds)
    func observersLearnThatATableBeginsToMove(_ kind: String) async throws {
        let fixture = try Fixture()
        try fixture.finish()
        let writer = try Self.open(kind, fixture)
        let path = fixture.folder.appendingPathComponent("later.db").path
        let later = try DatabaseQueue(path: path)
        try await later.write { db in
            try db.execute(
                sql: "CREATE TABLE badge(id INTEGER PRIMARY KEY, name); INSERT INTO badge VALUES (1, 'a'), (2, 'b')"
            )
        }
        try fixture.mover.execute("CREATE TABLE badge(id INTEGER PRIMARY KEY, name)")
        let observation = ValueObservation.tracking { try Int.fetchOne($0, sql: "SELECT count(*) FROM badge") }
            .removeDuplicates()
        var counts: [Int?] = []
        for try await count in observation.values(in: writer) {
            counts.append(count)
            switch counts.count {
            case 1:
                try fixture.mover.addMigration(source: .file(path)) { table in
                    if table.name == "badge" { table.sourceTable = "badge" }
                }
                try Self.refresh(writer)
            case 2: try await writer.write { try $0.execute(sql: "DELETE FROM badge WHERE id = 2") }
            default: break
            }
            if counts.count == 3 { break }
        }
        #expect(counts == [0, 2, 1])
    }
}
