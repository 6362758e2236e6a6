import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Full-text tables whose content is a moving table. They read the content by statements of their own, which name the
/// target's table.
@Suite struct FullTextTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, s TEXT, u TEXT)"
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
        INSERT INTO t SELECT i, NULL, 's' || i % 4, 'u' || i FROM n
        """
    private static let extra = """
        CREATE TABLE other(x); INSERT INTO other VALUES (3), (30), (31); CREATE TABLE lst(x);
        CREATE VIEW vv AS SELECT id, s, u FROM t; CREATE VIEW rv AS SELECT rowid AS r FROM f;
        """

    enum Content: Int, CaseIterable {
        case table5, view5, table4, view4

        var index: String {
            let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO f"
            return switch self {
            case .table5, .view5:
                "CREATE VIRTUAL TABLE f USING fts5(s, u, content='\(self == .table5 ? "t" : "vv")', content_rowid='id');"
                    + fill + "(rowid, s, u) SELECT i, 's' || i % 4, 'u' || i FROM n"
            case .table4, .view4:
                "CREATE VIRTUAL TABLE f USING fts4(content=\"\(self == .table4 ? "t" : "vv")\", s, u);"
                    + fill + "(docid, s, u) SELECT i, 's' || i % 4, 'u' || i FROM n"
            }
        }

        /// The name of the rowid.
        var rowID: String { self == .table5 || self == .view5 ? "rowid" : "docid" }

        var isAvailable: Bool { self == .table4 || self == .view4 || SQLiteFeature.fullText5.isAvailable }
    }

    enum Way: Int, CaseIterable {
        case alone, block, transaction, reader
    }

    private static let statements = [
        "SELECT t.id, f.s FROM t CROSS JOIN f ON f.rowid = t.id WHERE t.id IN (3, 30, 31)",
        "SELECT x, CASE WHEN x > 3 THEN (SELECT s FROM f WHERE f.rowid = x) END FROM other",
        "SELECT t.id, (SELECT f.u FROM f WHERE f MATCH t.u) FROM t WHERE t.id IN (3, 30, 31)",
        "SELECT t.id, f.u FROM t LEFT JOIN f ON f.rowid = t.id WHERE t.id > 28",
        "SELECT count(f.u) FROM other LEFT JOIN f ON f.rowid = other.x", "SELECT * FROM f WHERE f MATCH 'u30'",
        "SELECT t.*, snippet(f) FROM f JOIN t ON t.id = f.rowid WHERE f MATCH 's2'",
        "UPDATE t SET a = (SELECT u FROM f WHERE f.rowid = t.id + 1) WHERE id IN (3, 29, 30)",
        "INSERT INTO lst SELECT f.u FROM t CROSS JOIN f ON f.rowid = t.id WHERE t.id IN (3, 30)",
        "DELETE FROM t WHERE id IN (3, 29, 30) AND EXISTS (SELECT 1 FROM f WHERE f.rowid = t.id + 1 AND f.u IS NOT NULL)",
        "SELECT id FROM t LEFT JOIN f ON f.rowid = t.id WHERE f.rowid IS NULL",
        "SELECT id FROM t WHERE id NOT IN (SELECT rowid FROM f)",
        "SELECT id, (SELECT count(*) FROM f) FROM t WHERE id > 38",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM f WHERE f.rowid = id)",
        "UPDATE t SET a = 1 WHERE id IN (SELECT rowid FROM f)", "SELECT count(*) FROM rv, t WHERE t.id = rv.r",
        "SELECT t.id FROM t, f AS x WHERE x.rowid = t.id AND t.id NOT IN (SELECT rowid FROM f WHERE f MATCH 's2')",
        "DELETE FROM f WHERE rowid = 30", "UPDATE f SET u = 'new' WHERE rowid = 31",
        "INSERT INTO f(f) SELECT 'rebuild' FROM t WHERE id = 3", "INSERT INTO f(f) VALUES ('rebuild')",
        "INSERT OR REPLACE INTO f(rowid, s, u) VALUES (30, 'x', 'y')",
    ]

    private static func fetch(_ way: Way, _ sql: String, _ database: Database) throws -> [String] {
        switch way {
        case .alone: try database.withoutTransaction { try texts($0.fetchAll(sql)) }
        case .block: try database.write { try texts($0.fetchAll(sql)) }
        case .transaction:
            try database.withoutTransaction { access in
                try access.execute("BEGIN")
                let found = try texts(access.fetchAll(sql))
                try access.execute("COMMIT")
                return found
            }
        case .reader: try database.read { try texts($0.fetchAll(sql)) }
        }
    }

    private static let looks = [
        "SELECT * FROM t ORDER BY id", "SELECT x FROM lst",
        "SELECT rowid FROM f WHERE f MATCH 'u30 OR u31 OR new OR y'",
        "SELECT count(*) FROM f WHERE f MATCH 's2'",
    ]

    /// A full-text table may have a name that begins like those of the engine's own virtual tables.
    @Test func itMayHaveAnyName() throws {
        let renamed: (String) -> String = { $0.replacing(/\bf\b/.wordBoundaryKind(.simple), with: "midstream_f") }
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: renamed(Self.extra + Content.table4.index),
            tables: ["t"],
            moved: 7
        )
        for sql in Self.statements.map(renamed)
        where !sql.hasPrefix("INSERT INTO midstream_f(") && !sql.hasPrefix("INSERT OR") {
            let found = try pair.database.write { try texts($0.fetchAll(sql)) }
            #expect(try found == texts(pair.native.fetchAll(sql)), "\(sql)")
            for look in Self.looks.map(renamed) {
                #expect(try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)), "\(sql): \(look)")
            }
        }
    }

    /// A trigger's program has made the module prepare the statement by which a search looks for rows.
    @Test(arguments: [Content.table5, .table4].filter(\.isAvailable))
    func aSearchWithORFindsTheContentOfAllRows(_ content: Content) throws {
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra + content.index
                + "; CREATE TRIGGER gone BEFORE DELETE ON t BEGIN DELETE FROM f WHERE rowid = OLD.id; END",
            tables: ["t"],
            moved: 7
        )
        for sql in ["DELETE FROM t WHERE id = 3", "DELETE FROM t WHERE id = 33"] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        let sql = "SELECT rowid FROM f WHERE f MATCH 'u4' OR rowid = 20 ORDER BY rowid"
        let wanted = try texts(pair.native.fetchAll(sql))
        #expect(try texts(pair.database.withoutTransaction { try $0.fetchAll(sql) }) == wanted)
    }

    @Test(arguments: Content.allCases.filter(\.isAvailable), Way.allCases)
    func findsTheContentOfAllRows(_ content: Content, _ way: Way) throws {
        for sql in Sample.part(of: Self.statements, from: content.rawValue + way.rawValue) {
            if way == .reader, !sql.hasPrefix("SELECT") { continue }
            for isWarm in [false, true] {
                let pair = try Pair(
                    schema: Self.schema,
                    rows: Self.rows,
                    extra: Self.extra + content.index,
                    tables: ["t"],
                    moved: 7
                )
                // A module keeps the statements that it has prepared.
                if isWarm { try pair.database.execute("UPDATE t SET u = 'u3' WHERE id = 3") }
                let wanted = Result { try texts(pair.native.fetchAll(sql)) }
                let found = Result { try Self.fetch(way, sql, pair.database) }
                // The view reads the table itself.
                if way == .reader, sql.contains("rv"), case .failure(let error) = found {
                    #expect((error as? MigrationError)?.code == .refusedStatement, "\(sql)")
                    continue
                }
                #expect((try? found.get()) == (try? wanted.get()), "\(sql)")
                for look in Self.looks {
                    #expect(
                        try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)),
                        "\(sql): \(look)"
                    )
                }
            }
        }
    }

    /// The trigger asks for rows other than the one that fires it. So does a table that ranks without sizes of its own.
    @Test(arguments: Content.allCases.filter(\.isAvailable), [true, false])
    func whatReadsAllOfTheContentFindsIt(_ content: Content, _ isInBlock: Bool) throws {
        let rebuild = "INSERT INTO f(f) VALUES ('rebuild')"
        let triggers = [
            "CREATE TRIGGER x AFTER DELETE ON other BEGIN \(rebuild); END",
            "CREATE TRIGGER x AFTER UPDATE ON t BEGIN \(rebuild); END",
            "CREATE TRIGGER x AFTER UPDATE ON t BEGIN INSERT INTO lst SELECT u FROM f WHERE rowid = 30; END",
            "CREATE TRIGGER x AFTER UPDATE ON t BEGIN INSERT INTO lst SELECT count(*) FROM f; END",
            "CREATE TEMP TRIGGER x AFTER INSERT ON lst BEGIN \(rebuild); END",
        ]
        let statements = [
            "DELETE FROM other WHERE x IN (SELECT id FROM t)", "UPDATE t SET u = 'new' WHERE id = 31",
            "INSERT INTO lst SELECT id FROM t WHERE id = 30",
            "INSERT INTO f(f) SELECT 'rebuild' FROM t WHERE u <> 'merge' AND id = 5",
        ]
        for trigger in triggers {
            let pair = try Pair(
                schema: Self.schema,
                rows: Self.rows,
                extra: Self.extra + content.index + (trigger.contains("TEMP") ? "" : ";" + trigger),
                tables: ["t"],
                moved: 7
            )
            try pair.database.withoutTransaction { access in
                if isInBlock {
                    try pair.native.execute("BEGIN")
                    try access.execute("BEGIN")
                }
                if trigger.contains("TEMP") {
                    try pair.native.execute(trigger)
                    try access.execute(trigger)
                }
                for sql in statements {
                    // Since SQLite 3.41, FTS4 finds no rowids in a view.
                    let isRefused = (try? pair.native.execute(sql)) == nil
                    #expect(((try? access.execute(sql)) == nil) == isRefused, "\(trigger), \(sql)")
                    for look in Self.looks {
                        #expect(
                            try texts(access.fetchAll(look)) == texts(pair.native.fetchAll(look)),
                            "\(trigger), \(sql): \(look)"
                        )
                    }
                }
                if isInBlock {
                    try pair.native.execute("COMMIT")
                    try access.execute("COMMIT")
                }
            }
        }
    }

    @Test(.needs(.fullText5), arguments: ["columnsize=0", "detail=column", "detail=none"], Way.allCases)
    func aTableThatRanksByItsContentFindsThat(_ option: String, _ way: Way) throws {
        let index = Content.table5.index.replacing("content='t'", with: "content='t', \(option)")
        for sql in [
            "SELECT t.id, rank FROM t CROSS JOIN f ON t.id = f.rowid WHERE f MATCH 's1 OR s2' ORDER BY rank, t.id",
            "SELECT f.rowid FROM f WHERE f MATCH 's1' AND f.rowid IN (SELECT id FROM t WHERE id > 0) ORDER BY bm25(f), f.rowid",
            "SELECT x, CASE WHEN x > 3 THEN (SELECT rank FROM f WHERE f MATCH 's1 OR s2' AND f.rowid = x) END FROM other",
        ] {
            let pair = try Pair(
                schema: Self.schema,
                rows: Self.rows,
                extra: Self.extra + index,
                tables: ["t"],
                moved: 7
            )
            #expect(try Self.fetch(way, sql, pair.database) == texts(pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    @Test(.needs(.fullText5)) func aTableThatIsMadeInABlockFindsTheContent() throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: ["t"], moved: 7)
        try pair.native.execute(script: Content.table5.index)
        try pair.database.write { access in
            try access.execute(Content.table5.index)
            for sql in Self.statements.prefix(5) {
                #expect(try texts(access.fetchAll(sql)) == texts(pair.native.fetchAll(sql)), "\(sql)")
            }
        }
    }

    @Test(.needs(.fullText5)) func aTableWhoseEndIsTakenBackFindsTheContent() throws {
        for isWhole in [true, false] {
            let index = Content.table5.index
            let pair = try Pair(
                schema: Self.schema,
                rows: Self.rows,
                extra: Self.extra + index,
                tables: ["t"],
                moved: 7
            )
            try pair.database.withoutTransaction { access in
                try access.execute("BEGIN; SAVEPOINT s; DROP TABLE f; \(isWhole ? "ROLLBACK; BEGIN" : "ROLLBACK TO s")")
                for sql in Self.statements.prefix(5) {
                    #expect(try texts(access.fetchAll(sql)) == texts(pair.native.fetchAll(sql)), "\(sql)")
                }
                try access.execute("COMMIT")
            }
        }
    }

    /// A trigger may take a row out of the index that takes another message's place, and that may still be pending. A
    /// trigger that takes the row out that fires it reads this row, which is in the target.
    @Test(
        arguments: Content.allCases.filter(\.isAvailable),
        [
            (true, "AFTER UPDATE OF a ON t BEGIN DELETE FROM f WHERE KEY = new.a; END"),
            (true, "AFTER UPDATE OF a ON t BEGIN UPDATE f SET u = 'new' WHERE KEY = new.a; END"),
            (
                true,
                "BEFORE DELETE ON t BEGIN DELETE FROM f WHERE KEY = old.id; DELETE FROM f WHERE KEY = old.id + 20; END"
            ),
            (true, "BEFORE DELETE ON t BEGIN DELETE FROM f WHERE KEY = old.id + 20 OR KEY = old.id; END"),
            (true, "AFTER UPDATE OF a ON t BEGIN REPLACE INTO f(KEY, s, u) VALUES (new.a, 's2', 'new'); END"),
            (false, "AFTER DELETE ON t BEGIN DELETE FROM f WHERE KEY = old.id; END"),
            (false, "BEFORE UPDATE ON t BEGIN DELETE FROM \"f\" WHERE KEY = OLD.\"id\" ; END"),
            (false, "BEFORE UPDATE ON t BEGIN UPDATE f SET u = new.a WHERE KEY = old.rowid; END"),
            (false, "BEFORE UPDATE ON t BEGIN REPLACE INTO f(KEY, s, u) VALUES (new.id, 's2', lower('new')); END"),
        ]
    )
    func aTriggerTakesOtherRowsOutOfTheIndex(_ content: Content, _ trigger: (takesOthers: Bool, text: String)) throws {
        for isInTransaction in [false, true] { try takeOut(content, trigger, isInTransaction) }
    }

    private func takeOut(
        _ content: Content,
        _ trigger: (takesOthers: Bool, text: String),
        _ isInTransaction: Bool
    ) throws {
        let key = content.rowID
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra + content.index + "; CREATE TRIGGER g "
                + trigger.text.replacing("KEY", with: key),
            tables: ["t"],
            moved: 7
        )
        let statements = [
            "UPDATE t SET a = 30 WHERE id = 3", "DELETE FROM t WHERE id IN (5, 10)", "DELETE FROM t WHERE id = 35",
            "UPDATE t SET a = 31 WHERE id IN (4, 36)",
        ]
        try pair.database.withoutTransaction { access in
            for sql in isInTransaction ? ["BEGIN"] + statements + ["COMMIT"] : statements {
                try pair.native.execute(sql)
                try access.execute(sql)
                if sql != "COMMIT" { #expect(access.changes == pair.native.changes, "\(sql)") }
            }
        }
        let words = ["s2", "s3", "u30", "u25", "u35", "new", "30"]
        try compare(words, key, pair) { try pair.database.fetchAll($0) }
        let drains = trigger.takesOthers || content == .view5 || content == .view4
        #expect(pair.database.migrationStatistics.drains(of: "t") == (drains ? 1 : 0))
        try pair.finish()
        try compare(words, key, pair) { try pair.database.fetchAll($0) }
    }

    /// Compares what each word finds.
    private func compare(_ words: [String], _ key: String, _ pair: Pair, _ fetch: (String) throws -> [Row]) throws {
        for word in words {
            let sql = "SELECT \(key) FROM f WHERE f MATCH '\(word)' ORDER BY 1"
            #expect(try texts(fetch(sql)) == texts(pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    /// The content has a column with the rowid's name, and another moving table has the name of a column of the index.
    @Test(arguments: Content.allCases.filter(\.isAvailable))
    func aRowThatIsNotTheTriggersOwnIsTakenOutOfTheIndex(_ content: Content) throws {
        let key = content.rowID
        let pair = try Pair(
            schema:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, oid INT, s TEXT, u TEXT); CREATE TABLE u(id INTEGER PRIMARY KEY)",
            rows: """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
                INSERT INTO t SELECT i, NULL, 's' || i % 4, 'u' || i FROM n; INSERT INTO u SELECT id FROM t
                """,
            extra: "CREATE VIEW vv AS SELECT id, s, u FROM t;" + content.index
                + """
                ; CREATE TRIGGER a BEFORE DELETE ON t BEGIN DELETE FROM f WHERE \(key) = old.id; END;
                CREATE TRIGGER b AFTER UPDATE OF oid ON t BEGIN DELETE FROM f WHERE \(key) = new.oid; END;
                CREATE TRIGGER c BEFORE DELETE ON u BEGIN DELETE FROM f WHERE \(key) = old.id; END
                """,
            tables: ["t", "u"],
            moved: 7
        )
        for sql in [
            "DELETE FROM t WHERE id = 2", "DELETE FROM u WHERE id IN (3, 36)", "UPDATE t SET oid = 35 WHERE id = 4",
        ] {
            try pair.native.execute(sql)
            try pair.database.execute(sql)
            try compare(["s0", "s2", "s3", "u3", "u35", "u36"], key, pair) { try pair.database.fetchAll($0) }
        }
    }

    @Test(arguments: Content.allCases.filter(\.isAvailable), [true, false])
    func aTemporaryTriggerIsNotTakenForItsNamesake(_ content: Content, _ isInTransaction: Bool) throws {
        let key = content.rowID
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra + content.index
                + "; CREATE TRIGGER g BEFORE DELETE ON t BEGIN DELETE FROM f WHERE \(key) = old.id; END",
            tables: ["t"],
            moved: 7
        )
        let made = "CREATE TEMP TRIGGER g AFTER INSERT ON lst BEGIN DELETE FROM f WHERE \(key) = new.x; END"
        let statements = [
            "DELETE FROM t WHERE id = 3", made, "INSERT INTO lst VALUES (35)", "DELETE FROM t WHERE id = 38",
        ]
        try pair.database.withoutTransaction { access in
            for sql in isInTransaction ? ["BEGIN"] + statements + ["COMMIT"] : statements {
                try pair.native.execute(sql)
                try access.execute(sql)
            }
            try compare(["s0", "s2", "s3", "u3", "u35", "u38"], key, pair) { try access.fetchAll($0) }
        }
    }

    private static let questions = [
        "SELECT rowid, s, u FROM f WHERE f MATCH 's2' ORDER BY rowid", "SELECT * FROM f", "SELECT count(u) FROM f",
        "SELECT (SELECT u FROM f WHERE f.rowid = t.id) FROM t WHERE t.id > 5 ORDER BY id",
        "WITH c AS (SELECT rowid AS r, u FROM f WHERE f MATCH 's1') SELECT t.*, c.u FROM c JOIN t ON t.id = c.r ORDER BY r",
    ]
    private static let questionsOf5 = [
        "SELECT rowid, snippet(f, 0, '[', ']', '...', 5), rank FROM f WHERE f MATCH 's2 OR u7' ORDER BY rank, rowid",
        "SELECT highlight(f, 1, '<', '>'), bm25(f) FROM f WHERE f MATCH 'u30'",
        "SELECT snippet(f, -1, '', '', '', 9) FROM t JOIN f ON t.id = f.rowid WHERE f MATCH 's*' AND t.id > 20 ORDER BY t.id LIMIT 3",
    ]
    private static let questionsOf4 = [
        "SELECT docid, snippet(f, '[', ']'), offsets(f) FROM f WHERE f MATCH 's2 OR u7' ORDER BY docid",
        "SELECT hex(matchinfo(f)), u FROM f WHERE f MATCH 'u30'",
    ]

    /// The reader asks in a block and in single statements, each time before and after rows of the table and of its
    /// index have been written.
    @Test(arguments: Content.allCases.filter(\.isAvailable)) func aReaderIsAnsweredWithoutADrain(_ content: Content)
        throws
    {
        let is5 = content == .table5 || content == .view5
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra + content.index,
            tables: ["t"],
            moved: 7
        )
        let index = "INSERT INTO f(\(content.rowID), s, u) VALUES (41, 's2', 'u41')"
        for sql in ["", "INSERT INTO t VALUES (41, 1, 's2', 'u41')", index] {
            if !sql.isEmpty {
                try pair.native.execute(sql)
                try pair.database.execute(sql)
            }
            for question in Self.questions + (is5 ? Self.questionsOf5 : Self.questionsOf4) {
                // Since SQLite 3.41, FTS4 finds no rowids in a view.
                guard let wanted = try? texts(pair.native.fetchAll(question)) else { continue }
                #expect(try texts(pair.database.fetchAll(question)) == wanted, "\(question)")
            }
            try pair.database.read { access in
                for question in Self.questions + (is5 ? Self.questionsOf5 : Self.questionsOf4) {
                    guard let wanted = try? texts(pair.native.fetchAll(question)) else { continue }
                    #expect(try texts(access.fetchAll(question)) == wanted, "\(question)")
                    let search = "SELECT rowid FROM f WHERE f MATCH 's2' ORDER BY rowid"
                    #expect(try texts(access.fetchAll(search)) == texts(pair.native.fetchAll(search)))
                }
                var rows = 0
                try access.forEachRow("SELECT u FROM f WHERE f MATCH 's2'") { row in
                    rows += 1
                    return rows < 2
                }
            }
        }
        #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
        let copies = try pair.database.read {
            try $0.fetchAll("SELECT name FROM sqlite_temp_master WHERE name LIKE 'f%'")
        }
        #expect(copies.isEmpty)
    }

    /// What applications do most needs no content: it must not move a large table at once.
    @Test(arguments: Content.allCases.filter(\.isAvailable)) func aSearchForRowsDrainsNothing(_ content: Content) throws
    {
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra + content.index,
            tables: ["t"],
            moved: 7
        )
        var statements = [
            "SELECT t.* FROM f JOIN t ON t.id = f.rowid WHERE f MATCH 's2' ORDER BY t.id",
            "SELECT id FROM t WHERE id IN (SELECT rowid FROM f WHERE f MATCH 'u30')",
            "SELECT count(*) FROM f WHERE f MATCH 's1'", "INSERT INTO f(rowid, s, u) VALUES (50, 'x', 'y')",
            "INSERT INTO f(f) VALUES ('optimize')",
        ]
        if content == .table5 || content == .view5 {
            statements += [
                "SELECT rowid FROM f WHERE f MATCH 's2' ORDER BY rank, rowid",
                "SELECT rowid FROM f WHERE f MATCH 's2' ORDER BY bm25(f), rowid",
                "INSERT INTO f(f, rowid, s, u) VALUES ('delete', 30, 's2', 'u30')",
            ]
        }
        for sql in statements {
            let found = try pair.database.write { try texts($0.fetchAll(sql)) }
            #expect(try texts(pair.native.fetchAll(sql)) == found, "\(sql)")
        }
        #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
        try pair.finish()
        for look in Self.looks {
            #expect(try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)), "\(look)")
        }
    }
}
