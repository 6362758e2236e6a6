import SQLCorpus
import SQLText
import Testing

@Suite("Outlines beside native SQLite")
struct SQLiteOracleTests {
    @Test("Statements end where SQLite's do", arguments: ["", ";", " ; -- a\n;", ";\n", "; /* b */"])
    func ends(_ separator: String) throws {
        for statement in Corpus.taken where !statement.hasSuffix("-- the end") {
            // Each statement is tried alone after a plain one: SQLite cannot prepare most of the statements after the
            // others have run.
            let text = ";;SELECT 0;" + statement + separator
            let oracle = try SQLiteOracle(schema: Corpus.schema)
            var expected: [Int] = []
            var offset = 0
            while offset < text.utf8.count {
                guard let prepared = oracle.prepare(text, at: offset) else { break }
                expected.append(prepared.endOffset)
                offset = prepared.endOffset
            }
            // Savepoints and schemas that do not exist fail when the statement runs, not here. The library may lack
            // fts5.
            guard offset == text.utf8.count else {
                #expect(!oracle.message.contains("syntax error"), "\(statement)")
                continue
            }
            #expect(SQLScript(text).map(\.endOffset) == expected, "\(text)")
        }
    }

    @Test("All that SQLite takes is outlined completely", arguments: Corpus.all)
    func complete(_ statement: String) throws {
        let oracle = try SQLiteOracle(schema: Corpus.schema)
        if Corpus.taken.contains(statement), oracle.prepare(statement) == nil {
            #expect(!oracle.message.contains("syntax error"), "\(oracle.message)")
        }
        let outline = SQLScript(statement).outline()
        #expect(outline.isComplete)
        #expect(outline.kind != .other)
    }

    @Test("Every table that SQLite reads or writes is among the references", arguments: Corpus.takenQueriesAndWrites)
    func tables(_ statement: String) throws {
        let oracle = try SQLiteOracle(schema: Corpus.schema)
        _ = try #require(oracle.prepare(statement), "\(oracle.message)")
        let outline = SQLScript(statement).outline()
        let ours = outline.tableReferences.filter { !outline.isHiddenByCommonTable($0) && !$0.isTableFunction }
        let known: Set = ["t", "u", "order", "left"]
        let names = Set(ours.map { SQLIdentifier.lowercased($0.name.name) })
        #expect(names == oracle.tables.intersection(known))
    }

    @Test(
        "Parameters have SQLite's indices",
        arguments: [
            "SELECT ?, ?, ?", "SELECT ?5, ?, ?2, ?", "SELECT :a, @a, $a, :a, ?, @a", "SELECT ?3, :a, ?1, :b, :a, ?",
            "SELECT $a::b(c), $a::b(d), $a::b(c)", "SELECT ?1, ?01, ?2", "SELECT :A, :a", "SELECT ?10, :x, ?11, ?",
            "WITH q AS (SELECT ?) SELECT :z FROM q WHERE ? IN (SELECT ?1)",
            "SELECT '?', \"t\".a, ? /* ? */ FROM t -- ?",
        ]
    )
    func parameters(_ statement: String) throws {
        let oracle = try SQLiteOracle(schema: Corpus.schema)
        let prepared = try #require(oracle.prepare(statement))
        let ours = SQLScript(statement).outline().parameters
        #expect(ours.map(\.index).max() == prepared.parameters.count)
        for (index, name) in prepared.parameters.enumerated() {
            let names = ours.filter { $0.index == index + 1 }.map(\.name)
            // SQLite gives no name to an index that the text skips, and keeps the first of several names.
            #expect(names.isEmpty ? name == nil : names.contains(name), "index \(index + 1)")
        }
    }

    @Test("A parameter's number that SQLite cannot have leaves the outline incomplete")
    func badNumbers() {
        for text in ["SELECT ?0", "SELECT ?99999999999999999999999", "SELECT ?2147483648", "SELECT ?2147483647, ?"] {
            #expect(!SQLScript(text).outline().isComplete)
        }
    }

    @Test("The arguments of a virtual table may have semicolons, as in SQLite")
    func virtualTable() throws {
        let text = "CREATE VIRTUAL TABLE f USING missing(a; (b;), c); SELECT 1"
        let oracle = try SQLiteOracle()
        let outlines = Array(SQLScript(text))
        #expect(outlines.first?.endOffset == oracle.prepare(text)?.endOffset)
        #expect(outlines.map(\.kind) == [.createVirtualTable, .select])
        #expect(outlines.map(\.isComplete) == [true, true])
    }
}
