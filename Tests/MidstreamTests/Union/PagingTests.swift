import Midstream
import SQLiteConnection
import Testing

/// Pages of a list. Each page is sought by the key of the last row of the page before: the next rows are read, and no
/// others. Before 3.22, SQLite does not tell by which collation it compares.
@Suite(.enabled(if: Connection.libraryVersionNumber >= 3_022_000)) struct PagingTests {
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
        INSERT INTO messages(id, chat, sender, body) SELECT i, i % 3, i * 7 % 5, 'm' || (i % 11) FROM n
        """
    private static let columns = "id INTEGER PRIMARY KEY, chat INTEGER, sender INTEGER, body TEXT)"
    private static let changes = [
        "UPDATE messages SET body = 'new' WHERE id % 10 = 3", "DELETE FROM messages WHERE id % 17 = 1",
        "UPDATE messages SET chat = 1 WHERE id % 50 = 2",
        "INSERT INTO messages VALUES (500, 1, 1, 'a'), (-5, 1, 2, 'b')",
    ]

    /// - Parameter search: How either side seeks a page, in SQLite's words.
    private func check(schema: String, queries: [String], _ search: String, moved: Int64) throws {
        let pair = try Pair(schema: schema, rows: Self.rows, tables: ["messages"], moved: moved)
        for change in ["SELECT 1"] + Self.changes {
            try pair.database.execute(change)
            try pair.native.execute(change)
            for query in queries {
                let theirs = texts(try pair.native.fetchAll(query))
                #expect(texts(try pair.database.fetchAll(query)) == theirs, "\(moved) moved, \(change): \(query)")
            }
        }
        for query in queries where query.contains("LIMIT") {
            let plans = try ScanPlans(of: query, in: pair.database)
            #expect(!plans.query.contains("B-TREE"), "\(query): \(plans)")
            #expect(!plans.sides.isEmpty)
            for side in plans.sides where !side.hasSuffix("INTEGER PRIMARY KEY (rowid=?)") {
                #expect(side.contains(search) && !side.contains("B-TREE"), "\(query): \(plans)")
            }
        }
        #expect(pair.database.migrationStatistics.drains(of: "messages") == 0)
    }

    @Test(
        arguments: [
            "CREATE INDEX i ON messages(chat, id)", "CREATE INDEX i ON messages(chat, id DESC)",
            "CREATE INDEX i ON messages(chat, id, body)",
            "CREATE UNIQUE INDEX i ON messages(chat, id)", "CREATE INDEX i ON messages(chat)",
        ],
        [0, 1, 180, 399] as [Int64]
    )
    func byAnIndexThatNamesTheRowID(_ index: String, _ moved: Int64) throws {
        let queries = [
            "SELECT * FROM messages WHERE chat = 1 ORDER BY id DESC LIMIT 9",
            "SELECT * FROM messages WHERE chat = 1 AND id < 190 ORDER BY id DESC LIMIT 9",
            "SELECT * FROM messages WHERE chat = 1 AND id > 170 ORDER BY id LIMIT 9",
            "SELECT id FROM messages WHERE chat = 1 ORDER BY chat, rowid DESC LIMIT 9",
            "SELECT * FROM messages WHERE chat = 1", "SELECT id, chat FROM messages",
            "SELECT chat, id FROM messages ORDER BY chat, id", "SELECT chat, id FROM messages ORDER BY chat DESC, id",
            "SELECT * FROM messages WHERE chat = 1 AND id = 31", "SELECT * FROM messages WHERE chat > 1 AND id > 390",
            "SELECT count(*) FROM messages WHERE chat = 1 AND id > 100",
            "SELECT * FROM messages WHERE chat IN (1, 2) AND id < 9",
            "SELECT min(id), max(id) FROM messages WHERE chat = 2",
            "SELECT max(id) FROM messages WHERE chat = 2 AND id < 50",
        ]
        let schema = "CREATE TABLE messages(\(Self.columns); \(index)"
        try check(schema: schema, queries: queries, "(chat=?", moved: moved)
    }

    @Test(
        arguments: [
            "PRIMARY KEY (id)) WITHOUT ROWID; CREATE INDEX i ON messages(chat)",
            "PRIMARY KEY (id DESC)) WITHOUT ROWID; CREATE INDEX i ON messages(chat)",
            "PRIMARY KEY (id, sender DESC)) WITHOUT ROWID; CREATE INDEX i ON messages(chat DESC)",
            "PRIMARY KEY (chat, id)) WITHOUT ROWID; CREATE INDEX i ON messages(chat, body)",
            "PRIMARY KEY (id)) WITHOUT ROWID; CREATE INDEX i ON messages(chat, id DESC, body)",
        ],
        [0, 1, 180, 399] as [Int64]
    )
    func byAnIndexThatTheKeyFollows(_ key: String, _ moved: Int64) throws {
        let queries = [
            "SELECT * FROM messages WHERE chat = 1 ORDER BY id DESC LIMIT 9",
            "SELECT * FROM messages WHERE chat = 1 AND id < 190 ORDER BY id DESC LIMIT 9",
            "SELECT * FROM messages WHERE chat = 1 AND id > 170 ORDER BY id LIMIT 9",
            "SELECT * FROM messages WHERE chat = 1 ORDER BY chat, id, body",
            "SELECT * FROM messages WHERE chat = 1 ORDER BY id", "SELECT chat, id FROM messages ORDER BY chat, id",
            "SELECT chat, id FROM messages ORDER BY chat, id DESC",
            "SELECT chat, id FROM messages ORDER BY chat DESC, id DESC",
            "SELECT id FROM messages WHERE chat = 1 AND id = 31",
            "SELECT id FROM messages WHERE chat = 1 AND id IN (31, 4, 9) ORDER BY id",
            "SELECT count(*) FROM messages WHERE chat = 1 AND id > 100",
            "SELECT id, body FROM messages WHERE chat = 1 AND body = 'm4'",
            "SELECT min(id), max(id) FROM messages WHERE chat = 2",
            "SELECT max(id) FROM messages WHERE chat = 2 AND id < 50",
            "SELECT chat, max(id) FROM messages GROUP BY chat ORDER BY chat",
            "SELECT * FROM messages WHERE chat = 1 AND body > 'm5' ORDER BY body, id",
        ]
        let schema = "CREATE TABLE messages(id INTEGER, chat INTEGER, sender INTEGER, body TEXT, \(key)"
        try check(schema: schema, queries: queries, "(chat=?", moved: moved)
    }

    /// The range that SQLite makes of a pattern is on another column.
    @Test(arguments: [0, 180, 399] as [Int64]) func besideAPattern(_ moved: Int64) throws {
        let queries = ["LIKE 'm1%'", "GLOB 'm[1-5]*'", "LIKE 'm!1%' ESCAPE '!'", "NOT LIKE 'm1%'"].flatMap { pattern in
            [
                "SELECT * FROM messages WHERE chat = 1 AND sender < 4 AND body \(pattern) ORDER BY sender DESC, id DESC LIMIT 9",
                "SELECT * FROM messages WHERE chat = 1 AND sender < 4 AND body \(pattern) ORDER BY sender, id",
            ]
        }
        let schema = "CREATE TABLE messages(\(Self.columns); CREATE INDEX i ON messages(chat, sender)"
        try check(schema: schema, queries: queries, "(chat=? AND sender<?", moved: moved)
    }

    /// IS compares with NULL as well, so it does not find only one row by a unique key.
    @Test(
        arguments: [
            "id INTEGER PRIMARY KEY, chat INTEGER, sender INTEGER, body TEXT)",
            "id INTEGER, chat INTEGER, sender INTEGER, body TEXT, PRIMARY KEY (id)) WITHOUT ROWID",
        ],
        [0, 1, 180, 399] as [Int64]
    )
    func byAnIndexOfAColumnThatISAValue(_ columns: String, _ moved: Int64) throws {
        let pair = try Pair(
            schema: """
                CREATE TABLE messages(\(columns); CREATE INDEX i ON messages(chat, id); CREATE UNIQUE INDEX u ON messages(body)
                """,
            rows: Self.rows.replacing("'m' || (i % 11)", with: "CASE i % 2 WHEN 0 THEN 'm' || i END")
                + "; UPDATE messages SET chat = NULL WHERE chat = 2",
            extra:
                "CREATE TABLE other(x, y TEXT); INSERT INTO other VALUES (1, 'm4'), (NULL, NULL), (0, 'm300'), ('1', 5)",
            tables: ["messages"],
            moved: moved
        )
        let queries = [
            "SELECT * FROM messages WHERE chat IS ? ORDER BY id DESC LIMIT 9",
            "SELECT id FROM messages WHERE chat IS ? AND id < 390 ORDER BY id DESC LIMIT 9",
            "SELECT id FROM messages WHERE chat IS ? AND body IS NULL ORDER BY id",
            "SELECT count(*) FROM messages WHERE chat IS ?", "SELECT id FROM messages WHERE id IS ?",
            "SELECT id FROM messages WHERE body IS ? ORDER BY id",
            "SELECT id FROM messages WHERE body IS ? AND id > 4 ORDER BY id",
            "SELECT count(*) FROM messages WHERE body IS NOT ?",
            "SELECT id, x FROM other LEFT JOIN messages ON chat IS x AND id < 9 WHERE y IS NOT ? ORDER BY id, x",
            "SELECT id, x FROM other LEFT JOIN messages ON body IS y WHERE chat IS ? ORDER BY id, x",
            "SELECT id, x FROM other JOIN messages ON chat IS x AND body IS y WHERE id IS NOT ? ORDER BY id, x",
            "SELECT id FROM messages WHERE (chat, body) IS (?, 'm4') ORDER BY id",
        ]
        let values: [SQLiteValue] = [
            .null, .integer(1), .real(1), .text("1"), .text("m4"), .integer(4), .blob([0x6d, 0x34]),
        ]
        func compare() throws {
            for query in queries {
                for value in values {
                    let theirs = texts(try pair.native.fetchAll(query, [value]))
                    #expect(
                        texts(try pair.database.fetchAll(query, [value])) == theirs,
                        "\(moved) moved, \(value): \(query)"
                    )
                }
            }
        }
        try compare()
        for value in values {
            for change in [
                "UPDATE messages SET sender = sender + 1 WHERE chat IS ?",
                "DELETE FROM messages WHERE body IS ? AND id > 390",
                "UPDATE messages SET body = 'x' || id WHERE chat IS NULL AND body IS ?",
            ] {
                try pair.database.execute(change, [value])
                try pair.native.execute(change, [value])
            }
        }
        try compare()
        #expect(pair.database.migrationStatistics.drains(of: "messages") == 0)
        for value in [.null, .integer(1)] as [SQLiteValue] {
            let plans = try ScanPlans(of: queries[0], [value], in: pair.database)
            #expect(!plans.query.contains("B-TREE"), "\(plans)")
            #expect(
                !plans.sides.isEmpty && plans.sides.allSatisfy { $0.contains("(chat=?") || $0.contains("(id=?") },
                "\(plans)"
            )
        }
    }
}
