import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A mapping of `SchemaOptions.columns` is applied once, and is left out only if that loses nothing.
@Suite struct SchemaMappingTests {
    private let folder = TemporaryFolder()

    private func open(_ sql: String) throws -> Database {
        let database = try Database(path: folder.file("app.db"))
        try database.execute(sql)
        return database
    }

    private func options(_ columns: [String: ColumnMapping], allowsDrops: Bool = false) -> SchemaOptions {
        var options = SchemaOptions()
        options.columns = ["t": columns]
        options.allowsDrops = allowsDrops
        return options
    }

    private func value(_ database: Database, _ sql: String) throws -> String? {
        texts(try database.fetchAll(sql)).first
    }

    @Test(.needs(.strict), arguments: ["INTEGER", "INT"])
    func aTableThatBecomesStrictKeepsWhatWasConverted(_ type: String) throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY, amount REAL); INSERT INTO t VALUES (1, 1.5)")
        let options = options(["amount": .expression("CAST(amount * 100 AS INTEGER)")])
        for suffix in ["", " STRICT", ""] {
            let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, amount \(type))\(suffix)"
            let plan = try database.upgrade(to: DatabaseSchema(sql: sql), options: options)
            #expect(!plan.description.contains("INTEGER instead of INTEGER"))
            #expect(try value(database, "SELECT amount FROM t") == "150")
        }
    }

    /// The PRIMARY KEY of a table without rowids is NOT NULL by itself.
    @Test func aKeyIsConvertedOnceAlthoughItsTableLosesItsRowIDs() throws {
        let database = try open("CREATE TABLE t(code INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        let options = options(["code": .expression("'c' || code")])
        for suffix in ["", " WITHOUT ROWID", ""] {
            try database.upgrade(
                to: DatabaseSchema(sql: "CREATE TABLE t(code TEXT PRIMARY KEY, a)\(suffix)"),
                options: options
            )
            #expect(try value(database, "SELECT group_concat(code) FROM t") == "c1,c2")
        }
    }

    @Test func thePlanTellsWhatColumnsAreMadeOf() throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY, first TEXT); INSERT INTO t VALUES (1, 'Ann')")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, seen INT, age INT)")
        let mappings: [String: ColumnMapping] = [
            "name": .expression("upper(first)"), "seen": .value(.integer(42)), "age": .column("id"),
        ]
        let plan = try database.plan(for: schema, options: options(mappings, allowsDrops: true))
        #expect(plan.changes.map(\.columns) == [mappings])
        #expect(
            plan.description.hasSuffix(
                "\n    age is made of column id\n    name is made of upper(first)\n    seen is made of a value"
                    + "\n    its rows are copied in the transaction"
            )
        )
    }

    /// A generated column is made of its expression, whatever its former name.
    @Test(.needs(.generatedColumns), .needs(.renameColumn), arguments: ["", " STORED"])
    func aGeneratedColumnIsRenamedInARebuild(_ kind: String) throws {
        let database = try open(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, g AS (upper(id))\(kind)); INSERT INTO t(a) VALUES ('x'), (NULL)"
        )
        var options = options(["a": .expression("coalesce(a, '')")])
        options.renamedColumns = ["t": ["g": "h"]]
        let schema = DatabaseSchema(
            sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, h AS (upper(id))\(kind))"
        )
        let plan = try database.upgrade(to: schema, options: options)
        #expect(plan.changes.map(\.columns) == [["a": .expression("coalesce(a, '')")]])
        #expect(texts(try database.fetchAll("SELECT a, h FROM t")) == ["x|1", "|2"])
        #expect(try database.plan(for: schema, options: options).isEmpty)
    }

    @Test(.needs(.generatedColumns)) func aMappingOfAGeneratedColumnIsRefusedByThePlanToo() throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, 'x')")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, g AS (upper(a)))")
        let options = options(["g": .expression("upper(a)")])
        let error = #expect(throws: MigrationError.self) { try database.plan(for: schema, options: options) }
        #expect(error?.code == .misuse && error?.message.contains("is generated") == true)
    }

    @Test func aMisspeltMappingDropsNothing() throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY, first TEXT); INSERT INTO t VALUES (1, 'Ann')")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)")
        for mapping in [ColumnMapping.expression("frist"), .column("frist"), .expression("upper(\"frist\")")] {
            let options = options(["name": mapping], allowsDrops: true)
            let error = #expect(throws: MigrationError.self) { try database.upgrade(to: schema, options: options) }
            #expect(error?.code == .misuse && error?.message.contains("would be dropped: first") == true)
        }
        try database.upgrade(to: schema, options: options(["name": .expression("upper(first)")], allowsDrops: true))
        #expect(try value(database, "SELECT name FROM t") == "ANN")
    }

    /// Users whose file is older than the column that the mapping names have nothing to lose.
    @Test func aMappingOfAnOtherVersionIsLeftOut() throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        let options = options(["name": .expression("upper(first)")], allowsDrops: true)
        let plan = try database.upgrade(
            to: DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT DEFAULT 'none')"),
            options: options
        )
        #expect(try value(database, "SELECT name FROM t") == "none")
        #expect(plan.unusedMappings == ["t.name"] && plan.description.contains("does not have: t.name"))
    }

    @Test(arguments: ["first", "\"first\"", "[first]"])
    func anOldMappingServesTheNextVersion(_ name: String) throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY, first TEXT); INSERT INTO t VALUES (1, 'Ann')")
        let options = options(["name": .expression("upper(\(name))")], allowsDrops: true)
        for type in ["TEXT", "TEXT NOT NULL"] {
            let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, name \(type))")
            #expect(try database.upgrade(to: schema, options: options).unusedMappings.isEmpty)
            #expect(try value(database, "SELECT name FROM t") == "ANN")
        }
    }

    @Test func aColumnThatIsMadeOfNothingIsToldOfWithItsMapping() throws {
        let database = try open("CREATE TABLE t(id INTEGER PRIMARY KEY, first TEXT); INSERT INTO t VALUES (1, 'Ann')")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, first TEXT, name TEXT NOT NULL)")
        let error = #expect(throws: MigrationError.self) {
            try database.upgrade(to: schema, options: options(["name": .expression("frist")]))
        }
        #expect(error?.message.contains("SchemaOptions.columns makes it of frist") == true)
    }
}
