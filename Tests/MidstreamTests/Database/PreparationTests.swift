import MidstreamTesting
import SQLCorpus
import SQLText
import SQLiteConnection
import Testing

@testable import Midstream

/// What Midstream gives SQLite in place of a statement can be prepared if the statement can. It is the statement itself
/// if the statement concerns nothing that moves.
@Suite struct PreparationTests {
    private static let corpusRows = """
        INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8) SELECT i, i, 'c', i, 'd' FROM n;
        INSERT INTO u SELECT a, b, c FROM t;
        INSERT INTO "order" SELECT a, b FROM t;
        INSERT INTO "left" SELECT a FROM t
        """

    @Test(arguments: [["t", "u", "order", "left"], ["t", "left"], ["u", "order"]], [0, 50])
    func statementsOfTheCorpusArePreparedAsNatively(_ tables: [String], _ percent: Int) throws {
        let pair = try Pair(schema: Corpus.schema, rows: Self.corpusRows, tables: Set(tables))
        // Tables that do not move are in the target.
        for table in ["t", "u", "order", "left"] where !tables.contains(table) {
            for row in try pair.native.fetchAll("SELECT * FROM \"\(table)\"") {
                var arguments = Arguments()
                arguments.positional = row.values
                let marks = row.values.map { _ in "?" }.joined(separator: ", ")
                try pair.database.execute("INSERT INTO \"\(table)\" VALUES (\(marks))", arguments)
            }
        }
        try MigrationFreezer(pair.database).move(toPercent: percent)
        var preparations = Preparations()
        try pair.database.withoutTransaction { access in
            try access.execute("SELECT 1")
            for sql in Corpus.all { try preparations.compare(sql, access, pair.native) }
        }
        preparations.report("the corpus with \(tables.joined(separator: ", ")) at \(percent) %")
        #expect(preparations.redirected > (tables.contains("t") ? 60 : 0) && preparations.untouched > 60)
    }

    @Test(arguments: Sample.pairs(LogicFiles.own + LogicFiles.all, [0, 50]))
    func statementsOfScriptsArePreparedAsNatively(_ path: String, _ percent: Int64) throws {
        let script = try Self.script(path)
        let start = LogicStart.position(in: script, try NativeRun(script), isEarly: Self.isWhole(path))
        let native = try Connection(path: ":memory:")
        defer { native.close() }
        for record in script.records[..<start] { _ = try native.answer(record) }
        let files = try MovingFiles(script.records[..<start], LogicMode(.frozen(percent: percent), movesAgain: false))
        var preparations = Preparations()
        try files.database.withoutTransaction { access in
            try access.execute("SELECT 1")
            for record in script.records[start...] { try Self.compare(record, access, native, &preparations) }
        }
        preparations.report("\(script.name) at \(percent) %")
        #expect(preparations.count > 0)
    }

    @Test(arguments: LogicFiles.own + LogicFiles.all)
    func statementsOfScriptsAreLeftAloneWhileAnotherTableMoves(_ path: String) throws {
        let script = try Self.script(path)
        let pair = try Pair(
            schema: "CREATE TABLE another(id INTEGER PRIMARY KEY, x)",
            rows: "INSERT INTO another(x) VALUES (1), (2), (3), (4)",
            tables: ["another"],
            moved: 2
        )
        var preparations = Preparations()
        try pair.database.withoutTransaction { access in
            try access.execute("SELECT 1")
            for record in script.records {
                let fillsTable = LogicStart.isSetUp(record) && !SQLScript(record.sql).allSatisfy(Self.changesSchema)
                // Most of a script's writes are alike.
                if Self.isWhole(path) || !fillsTable || preparations.count < 1000 {
                    try Self.compare(record, access, pair.native, &preparations)
                }
                guard fillsTable else { continue }
                _ = try pair.native.answer(record)
                _ = try access.answer(record)
            }
            #expect(access.overlay.byName.keys.contains("another"))
        }
        preparations.report("\(script.name) beside another table")
        #expect(preparations.redirected == 0 && preparations.untouched > 0)
    }

    @Test(arguments: [0, 50]) func randomStatementsArePreparedAsNatively(_ percent: Int) throws {
        var preparations = Preparations()
        let cases = Sample.size(40)
        for number in 0..<cases {
            var generator = CaseGenerator(seed: 1, number: number)
            let oracleCase = generator.generate(statements: 80)
            let files = try CaseFiles(oracleCase)
            try MigrationFreezer(files.database).move(toPercent: percent)
            try files.database.withoutTransaction { access in
                try access.execute("SELECT 1")
                for command in oracleCase.operations.flatMap(\.commands) {
                    try preparations.compare(command.sql, access, files.native.connection)
                }
            }
        }
        preparations.report("\(cases) random cases at \(percent) %")
        #expect(preparations.redirected > 25 * cases && preparations.untouched > 12 * cases)
    }

    @Test(arguments: [UInt64(1), 2]) func mutatedStatementsArePreparedAsNatively(_ seed: UInt64) throws {
        let pair = try Pair(
            schema: Corpus.schema,
            rows: Self.corpusRows,
            tables: ["t", "u", "order", "left"],
            moved: 4
        )
        var preparations = Preparations()
        var mutations = Mutations(seed: seed &* 0x9E37_79B9_7F4A_7C15)
        try pair.database.withoutTransaction { access in
            try access.execute("SELECT 1")
            for _ in 0..<3000 {
                let text = mutations.changedTokens()
                // SQLite analyzes everything before it finds what is wrong behind ANALYZE. Midstream denies the
                // ANALYZE, since the source is attached, and the statement fails with another error.
                if SQLScript(text).contains(where: { $0.kind == .analyze && !$0.isComplete }) { continue }
                try preparations.compare(text, access, pair.native)
            }
        }
        preparations.report("mutated statements, seed \(seed)")
        #expect(preparations.mistakes > 1000 && preparations.redirected > 100)
    }

    @Test func statementsWithoutSpacesDoWhatTheyDoNatively() throws {
        let pair = try Pair(
            schema: #"CREATE TABLE t(a INTEGER PRIMARY KEY,b);CREATE TABLE "u v"(a,b)"#,
            rows: #"INSERT INTO t VALUES(1,'p'),(2,'q'),(3,'r'),(4,'s');INSERT INTO "u v" SELECT a,b FROM t"#,
            extra: "CREATE VIEW v AS SELECT[main].[t].b FROM[main].[t]WHERE[main].[t].a>1",
            tables: ["t", "u v"],
            moved: 2
        )
        for sql in [
            "SELECT*FROM[v]", "SELECT*FROM[main].[t]WHERE[main].[t].a>1", "INSERT INTO[t]VALUES(abs(-5),'x')",
            "UPDATE[t]SET b='y'WHERE a=4", "UPDATE OR IGNORE[u v]SET b='z'WHERE a IN[v]OR a=3",
            "DELETE FROM[t]WHERE a=3",
            "DELETE FROM\"u v\"WHERE[main].\"u v\".a=random()OR[main].\"u v\".a=4",
        ] {
            let expected = texts(try pair.native.fetchAll(sql))
            let rows = try pair.database.withoutTransaction { texts(try $0.fetchAll(sql)) }
            #expect(rows == expected, "\(sql)")
            for query in ["SELECT*FROM[t]ORDER BY a", #"SELECT*FROM"u v"ORDER BY a"#] {
                let expected = texts(try pair.native.fetchAll(query))
                #expect(texts(try pair.database.fetchAll(query)) == expected, "\(query) after \(sql)")
            }
        }
    }

    @Test(arguments: [
        "SELECT * FROM t(1)", "SELECT 1 IN t(1)", "SELECT * FROM main.t(1)", "SELECT * FROM t INDEXED BY no",
    ])
    func whatNativelyIsAMistakeIsOneWhileTheTableMoves(_ sql: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(a INTEGER PRIMARY KEY, b)",
            rows: "INSERT INTO t(b) VALUES (1), (2), (3)",
            tables: ["t"],
            moved: 1
        )
        let expected = #expect(throws: SQLiteError.self) { try pair.native.fetchAll(sql) }
        let error = #expect(throws: SQLiteError.self) { try pair.database.fetchAll(sql) }
        #expect(error?.message == expected?.message)
        #expect(error?.code == expected?.code)
    }

    private static func isWhole(_ path: String) -> Bool { LogicFiles.isFull || LogicFiles.own.contains(path) }

    /// A whole script if everything is to be run; otherwise a part of it.
    private static func script(_ path: String) throws -> LogicScript {
        let script = try LogicFiles.script(path)
        return LogicFiles.isFull ? script : script.sample(60, seed: LogicFiles.seed)
    }

    /// Compares a statement, and then runs it if it changes the schema, so that the statements after it find the
    /// change.
    private static func compare(
        _ record: LogicRecord,
        _ access: DatabaseAccess,
        _ native: Connection,
        _ preparations: inout Preparations
    ) throws {
        try preparations.compare(record.sql, access, native)
        guard !record.isQuery, SQLScript(record.sql).allSatisfy(changesSchema) else { return }
        _ = try native.answer(record)
        _ = try access.answer(record)
    }

    private static func changesSchema(_ outline: StatementOutline) -> Bool {
        switch outline.kind {
        case .createTable, .createIndex, .createView, .createTrigger, .dropTable, .dropIndex, .dropView, .dropTrigger,
            .alterTable, .empty:
            true
        default: false
        }
    }
}

extension Operation {
    /// The statements of the operation.
    fileprivate var commands: [Command] {
        switch self {
        case .run(let command), .read(let command), .other(let command), .stranger(let command): [command]
        case .block(let commands, commits: _): commands
        case .loop(let select, let writes, limit: _): [select] + writes
        case .step, .reopen, .moveOn, .moveFile: []
        }
    }
}
