import Testing

/// The runner finds what is wrong.
@Suite struct LogicRunnerTests {
    private static let rows = """
        statement ok
        CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)

        statement ok
        INSERT INTO t VALUES(1,'x'),(2,'y'),(3,NULL),(4,'')


        """

    private static func script(_ records: String) throws -> LogicScript {
        try LogicParser.parse(Array((rows + records).utf8), name: "a script", names: ["sqlite"])
    }

    @Test(arguments: [
        ("query I rowsort\nSELECT a FROM t\n----\n1\n2\n3\n5", false),
        ("query I rowsort\nSELECT a FROM t\n----\n1\n2\n3", false),
        ("query I rowsort\nSELECT a FROM t\n----\n1\n2\n3\n4", true),
        ("query I nosort\nSELECT a FROM t ORDER BY a DESC\n----\n1\n2\n3\n4", false),
        ("query I nosort\nSELECT a FROM t ORDER BY a DESC\n----\n4\n3\n2\n1", true),
        ("query I valuesort\nSELECT a FROM t\n----\n4 values hashing to 6ddb4095eb719e2a9f0a3f95677d24e0", false),
        ("query I valuesort\nSELECT a FROM t\n----\n4 values hashing to b8d8a0cf95f3a8b8b1fa8f8b8a5a0b1d", false),
        ("query I valuesort\nSELECT a FROM t\n----\n5 values hashing to GOOD", false),
        ("query I valuesort\nSELECT a FROM t\n----\n4 values hashing to GOOD", true),
        ("query T rowsort\nSELECT b FROM t\n----\n(empty)\nNULL\nx\ny", true),
        ("query T rowsort\nSELECT b FROM t\n----\nNULL\nNULL\nx\ny", false),
        ("query II\nSELECT a FROM t", false), ("query I\nSELECT a FROM t", true), ("query I\nSELECT c FROM t", false),
        ("query I\nSELECT c FROM t\n----", false), ("query I\nSELECT abs(-9223372036854775807 - a) FROM t\n----", true),
        ("statement ok\nSELECT c FROM t", false), ("statement error\nSELECT c FROM t", true),
        ("statement error\nSELECT a FROM t", false), ("statement ok\nDELETE FROM t", true),
        ("query I nosort same\nSELECT 1\n\nquery I nosort same\nSELECT 2", false),
        ("query I nosort same\nSELECT 1\n\nquery I nosort same\nSELECT 3-2", true),
    ])
    func aWrongExpectationIsReported(_ records: String, _ isRight: Bool) throws {
        let good = MD5.hex("1\n2\n3\n4\n".utf8)
        let native = try NativeRun(Self.script(records.replacing("GOOD", with: good)))
        #expect(native.failures.isEmpty == isRight, "\(native.failures)")
        if !isRight { #expect(native.failures.allSatisfy { $0.line > 6 && !$0.sql.isEmpty }) }
    }

    /// As if SQLite alone had answered otherwise.
    @Test(arguments: LogicMode.all.map { "\($0)" })
    func anotherAnswerWhileTablesMoveIsReported(_ name: String) throws {
        let mode = try #require(LogicMode.all.first { "\($0)" == name })
        let script = try Self.script(
            """
            query I rowsort
            SELECT a FROM t
            ----
            1
            2
            3
            4

            statement error
            INSERT INTO t VALUES(1,'z')

            statement ok
            UPDATE t SET b=b||'!'

            query IT nosort
            SELECT * FROM t ORDER BY b
            """
        )
        let native = try NativeRun(script)
        #expect(native.failures.isEmpty)
        for turn in 0...1 {
            let run = try MovingRun(script, native, mode, turn: turn)
            try run.run()
            #expect(run.failures.isEmpty && run.recordCount == 4)
        }
        for position in 2..<6 {
            var changed = native
            changed.answers[position] += "?"
            let run = try MovingRun(script, changed, mode)
            try run.run()
            #expect(run.failures.map(\.line) == [script.records[position].line])
            #expect(run.failures.first?.sql == script.records[position].sql)
        }
        var changed = native
        changed.contents.removeLast()
        let run = try MovingRun(script, changed, mode)
        try run.run()
        #expect(run.failures.map(\.line) == [0])
    }

    @Test func anAnswerThatTheLibraryGivesOtherwiseMustBeTheLibrarysWhileTablesMove() throws {
        let report = LogicRunner().run(try Self.script("query I rowsort\nSELECT a FROM t\n----\n7"))
        #expect(report.native.count == 1)
        #expect(report.differences.isEmpty)
    }

    @Test func tablesAreMovedOutAgainSoThatLaterRecordsFindThemMoving() throws {
        let script = try Self.script(
            """
            query I nosort
            SELECT count(*) FROM t
            ----
            4

            statement ok
            CREATE UNIQUE INDEX i ON t(b)

            statement ok
            CREATE TABLE later(x)

            statement ok
            INSERT INTO later VALUES(1),(2),(3)

            query I nosort
            SELECT count(*) FROM later JOIN t ON x=a
            ----
            3

            query I nosort
            SELECT count(*) FROM later
            ----
            3
            """
        )
        let native = try NativeRun(script)
        for mode in LogicMode.all where !mode.startsEarly {
            let run = try MovingRun(script, native, mode)
            try run.run()
            #expect(run.failures.isEmpty, "\(mode)")
            switch mode.movement {
            case .frozen: #expect(run.roundCount == (mode.movesAgain ? 1 : 0) && run.drainCount == 1, "\(mode)")
            case .stepping: #expect(run.roundCount > 0 || !mode.movesAgain, "\(mode)")
            }
            #expect(run.tableCount >= (mode.movesAgain ? 3 : 1), "\(mode)")
        }
    }

    @Test func aSampleKeepsTheStatementsBeforeIt() throws {
        let queries = (0..<40).map { "query I\nSELECT \($0)\n\nstatement ok\nUPDATE t SET b=\($0)" }
        let script = try Self.script(queries.joined(separator: "\n\n"))
        for seed: UInt64 in 0..<20 {
            let sample = script.sample(10, seed: seed)
            #expect(sample.records == script.sample(10, seed: seed).records)
            let native = try NativeRun(sample)
            let start = LogicStart.position(in: sample, native, isEarly: false)
            #expect(10 - (sample.records.count - start) <= 1)
            let last = try #require(sample.records.last)
            let before = script.records.prefix { $0.line <= last.line }.filter { !$0.isQuery }
            #expect(sample.records.filter { !$0.isQuery } == before)
        }
        #expect(script.sample(1000, seed: 1).records.count == script.records.count)
    }

    @Test func whatRunsBeforeTheTablesMoveEndsWithTheFirstQuery() throws {
        func start(_ records: String, early: Bool = false) throws -> Int {
            let script = try Self.script(records)
            return LogicStart.position(in: script, try NativeRun(script), isEarly: early)
        }
        #expect(try start("statement ok\nDELETE FROM t\n\nquery I\nSELECT 1") == 3)
        #expect(try start("statement ok\nDELETE FROM t\n\nquery I\nSELECT 1", early: true) == 2)
        #expect(try start("statement error\nINSERT INTO t VALUES(1,1)", early: true) == 2)
        #expect(try start("statement ok\nDROP TABLE t") == 2)
        #expect(try start("statement ok\nBEGIN\n\nstatement ok\nDELETE FROM t\n\nquery I\nSELECT 1") == 2)
        #expect(try start("statement ok\nCREATE TEMP TABLE x(a)\n\nquery I\nSELECT 1") == 2)
    }
}

extension LogicRecord: Equatable {
    static func == (left: LogicRecord, right: LogicRecord) -> Bool { left.line == right.line }
}
