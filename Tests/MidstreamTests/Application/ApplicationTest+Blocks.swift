import Midstream
import SQLiteConnection
import Testing

// Blocks, transactions and cursors.

private struct Entry: Codable, Equatable {
    var id: Int64?
    var account: String
    var amount: Int64
}

private struct Refusal: Error {}

extension ApplicationTest {
    private static func ofLedger(
        _ name: String,
        _ body: @escaping @Sendable (Database) async throws -> Void
    ) -> ApplicationTest {
        ApplicationTest(
            name,
            schema: """
                CREATE TABLE entries(id INTEGER PRIMARY KEY, account TEXT NOT NULL, amount INTEGER NOT NULL);
                CREATE INDEX entries_by_account ON entries(account);
                CREATE TABLE settings(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
                """,
            tables: ["entries", "settings"],
            rows: { connection in
                for id in 1...200 as ClosedRange<Int64> {
                    try connection.insert(Entry(id: id, account: "a\(id % 8)", amount: id), into: "entries")
                    try connection.execute("INSERT INTO settings VALUES (?, ?)", ["key \(id)", id])
                }
            },
            body: body
        )
    }

    private static let total = "SELECT sum(amount) FROM entries"

    static let blocks: [ApplicationTest] = [
        ofLedger("A block that throws leaves nothing") { (database: Database) throws in
            #expect(throws: Refusal.self) {
                try database.write { access in
                    try access.execute("UPDATE entries SET amount = 0 WHERE id > 20")
                    try access.execute("DELETE FROM settings")
                    try access.insert(Entry(account: "x", amount: 5), into: "entries")
                    #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM settings") == 0)
                    throw Refusal()
                }
            }
            #expect(try database.fetchValue(Int.self, total) == 20100)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM settings") == 200)
        },
        ofLedger("A transfer is whole for every reader") { database in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        try await database.write { access in
                            try access.execute("UPDATE entries SET amount = amount - 3 WHERE id = ?", [number + 1])
                            try access.execute("UPDATE entries SET amount = amount + 3 WHERE id = ?", [200 - number])
                        }
                    }
                    group.addTask {
                        let found = try await database.read { access in
                            [try access.fetchValue(Int.self, total), try access.fetchValue(Int.self, total)]
                        }
                        #expect(found == [20100, 20100])
                    }
                }
                try await group.waitForAll()
            }
            #expect(try database.fetchValue(Int.self, "SELECT amount FROM entries WHERE id = 200") == 203)
        },
        ofLedger("A read block goes on with its snapshot") { database in
            try database.read { access in
                #expect(try access.fetchValue(Int.self, total) == 20100)
                try database.execute("DELETE FROM entries WHERE id % 2 = 0")
                #expect(try access.fetchValue(Int.self, total) == 20100)
                #expect(try access.fetchAll(Entry.self, "SELECT * FROM entries WHERE account = 'a2'").count == 25)
            }
            #expect(try database.fetchValue(Int.self, total) == 10000)
        },
        ofLedger("Savepoints take back what came after them") { database in
            try database.withoutTransaction { access in
                try access.execute("BEGIN")
                try access.execute("UPDATE entries SET amount = 1 WHERE account = 'a1'")
                try access.execute("SAVEPOINT inner")
                try access.execute("DELETE FROM entries WHERE id BETWEEN 90 AND 110")
                #expect(access.changes == 21)
                try access.execute("UPDATE settings SET value = -1 WHERE key > 'key 5'")
                try access.execute("ROLLBACK TO inner")
                #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM entries") == 200)
                try access.execute("COMMIT")
            }
            #expect(try database.fetchValue(Int.self, "SELECT sum(amount) FROM entries WHERE account = 'a1'") == 25)
            #expect(try database.fetchValue(Int.self, "SELECT min(value) FROM settings") == 1)
        },
        ofLedger("A cursor may be left early, and rows be written while it is read") { database in
            try database.write { access in
                var ids: [Int64] = []
                try access.forEachRow("SELECT id FROM entries ORDER BY id") { statement in
                    ids.append(statement.int64(at: 0))
                    return ids.count < 3
                }
                #expect(ids == [1, 2, 3])
                try access.forEachRow("SELECT id, amount FROM entries ORDER BY id") { statement in
                    let (id, amount) = (statement.int64(at: 0), statement.int64(at: 1))
                    #expect(id == amount)
                    try access.execute("UPDATE entries SET amount = -amount WHERE id = ?", [id])
                    return true
                }
            }
            #expect(try database.fetchValue(Int.self, total) == -20100)
        },
        ofLedger("A cursor sees what is changed ahead of it") { (database: Database) throws in
            let isDeleted = { (id: Int64) in id > 10 && id % 10 == 3 }
            let expected = (1...200 as ClosedRange<Int64>).filter { !isDeleted($0) }.map { id in
                id + 1000 * Int64([id - 1, id - 2].count { $0 > 0 && !isDeleted($0) })
            }
            try database.write { access in
                var seen: [Int64] = []
                try access.forEachRow("SELECT id, amount FROM entries ORDER BY id") { statement in
                    let id = statement.int64(at: 0)
                    seen.append(statement.int64(at: 1))
                    try access.execute(
                        "UPDATE entries SET amount = amount + 1000 WHERE id IN (?, ?)",
                        [id + 1, id + 2]
                    )
                    if id % 10 == 0 { try access.execute("DELETE FROM entries WHERE id = ?", [id + 3]) }
                    return true
                }
                #expect(seen == expected)
            }
        },
        ofLedger("Settings are read and replaced by their keys") { database in
            try database.write { access in
                for number in [1, 100, 200, 300] {
                    try access.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", ["key \(number)", "new"])
                }
                try access.execute("DELETE FROM settings WHERE key IN ('key 2', 'key 199')")
                #expect(access.changes == 2)
            }
            #expect(try database.fetchValue(String.self, "SELECT value FROM settings WHERE key = 'key 200'") == "new")
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM settings") == 199)
            #expect(
                try database.fetchAll(String.self, "SELECT key FROM settings LIMIT 3") == [
                    "key 1", "key 10", "key 100",
                ]
            )
        },
        ofLedger("A scan gives rows in the order in which they were always given") { (database: Database) throws in
            #expect(
                try database.fetchAll(Int64.self, "SELECT id FROM entries WHERE amount > 0 LIMIT 5") == [1, 2, 3, 4, 5]
            )
            #expect(
                try database.fetchAll(String.self, "SELECT account FROM entries")[29] == "a1"
            )
            #expect(try database.fetchAll(Entry.self, "SELECT * FROM entries").map(\.amount) == (1...200).map { $0 })
        },
    ]
}
