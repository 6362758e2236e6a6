import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A declared schema has virtual tables, and also what a shell prints of the tables that these make for themselves.
@Suite struct DeclaredVirtualTableTests {
    private let folder = TemporaryFolder()

    private func open(_ sql: String = "") throws -> Database {
        let database = try Database(path: folder.file("app.db"))
        try database.execute(sql)
        return database
    }

    private func names(_ database: Database) throws -> [String] {
        texts(try database.fetchAll("SELECT name FROM sqlite_master ORDER BY name"))
    }

    private static let tables = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT);"
    private static let virtual = "CREATE VIRTUAL TABLE docs USING fts4(body)"
    private static let archive = "CREATE TABLE IF NOT EXISTS \"docs_archive\"(a); CREATE INDEX by_a ON docs_archive(a);"

    /// A schema as `.schema` of the sqlite3 shell prints it. In a file that has been vacuumed, the virtual table comes
    /// last.
    private static func printed(ofVacuumed isVacuumed: Bool) -> String {
        let shadows = """
            CREATE TABLE IF NOT EXISTS 'docs_content'(docid INTEGER PRIMARY KEY, 'c0body');
            CREATE TABLE IF NOT EXISTS 'docs_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
            CREATE TABLE IF NOT EXISTS 'docs_segdir'(level INTEGER,idx INTEGER,start_block INTEGER,leaves_end_block INTEGER,\
            end_block INTEGER,root BLOB,PRIMARY KEY(level, idx));
            CREATE TABLE IF NOT EXISTS 'docs_docsize'(docid INTEGER PRIMARY KEY, size BLOB);
            CREATE TABLE IF NOT EXISTS 'docs_stat'(id INTEGER PRIMARY KEY, value BLOB);
            """
        let docs = virtual + "\n/* docs(body) */;"
        return tables + "CREATE TABLE sqlite_stat1(tbl,idx,stat);"
            + (isVacuumed ? shadows + archive + docs : docs + shadows + archive)
    }

    @Test(arguments: [false, true]) func aSchemaAsTheShellPrintsItIsDeclared(_ isVacuumed: Bool) throws {
        let schema = DatabaseSchema(sql: Self.printed(ofVacuumed: isVacuumed))
        let fresh = try open()
        #expect(try fresh.upgrade(to: schema).changes.map(\.name) == ["messages", "docs_archive", "docs"])
        try fresh.execute("INSERT INTO docs(body) VALUES ('some words')")
        #expect(try fresh.fetchValue(Int.self, "SELECT count(*) FROM docs WHERE docs MATCH 'words'") == 1)
        #expect(try fresh.plan(for: schema).description == "nothing to change")
        let native = try Connection(path: ":memory:")
        try native.execute(script: Self.tables + Self.virtual + ";" + Self.archive)
        let all = "SELECT name FROM sqlite_master ORDER BY name"
        #expect(try names(fresh) == texts(native.fetchAll(all)))
    }

    /// A trigger may fill the index, and its content may be a table that is declared with it.
    @Test(.needs(.fullText5)) func anIndexOfATableComesWithItsTriggers() throws {
        let database = try open(Self.tables + "INSERT INTO messages VALUES (1, 'first words')")
        let schema = DatabaseSchema(
            sql: """
                CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL);
                CREATE VIRTUAL TABLE found USING fts5(body, content='messages', content_rowid='id');
                CREATE TRIGGER filled AFTER INSERT ON messages BEGIN
                    INSERT INTO found(rowid, body) VALUES (NEW.id, NEW.body); END;
                """
        )
        let told = try database.plan(for: schema)
        #expect(told.unfilledTables == ["found"])
        #expect(told.description.contains("fill it by INSERT INTO \"found\"(\"found\") VALUES ('rebuild')"))
        #expect(try database.upgrade(to: schema).changes.map(\.name) == ["messages", "found"])
        try database.execute("INSERT INTO found(found) VALUES ('rebuild')")
        try database.execute("INSERT INTO messages(body) VALUES ('more words')")
        #expect(texts(try database.fetchAll("SELECT rowid FROM found WHERE found MATCH 'words'")) == ["1", "2"])
        #expect(try database.plan(for: schema).isEmpty)
    }

    @Test func oneThatIsThereIsNeitherChangedNorDropped() throws {
        let database = try open(Self.tables + "create virtual table if not exists \"DOCS\" using FTS4 ( body ) ;")
        #expect(try database.plan(for: DatabaseSchema(sql: Self.tables + Self.virtual)).isEmpty)
        var options = SchemaOptions()
        options.allowsDrops = true
        let undeclared = try database.upgrade(to: DatabaseSchema(sql: Self.tables), options: options)
        #expect(undeclared.isEmpty && undeclared.undeclared == ["DOCS"])
        let other = DatabaseSchema(sql: Self.tables + "CREATE VIRTUAL TABLE docs USING fts4(body, title)")
        let error = #expect(throws: MigrationError.self) { try database.upgrade(to: other, options: options) }
        #expect(error?.code == .unsupported && error?.table == "docs")
        #expect(error?.message.contains("the declaration of virtual table docs differs") == true)
        try database.execute("DROP TABLE docs")
        #expect(try database.upgrade(to: other).changes.map(\.name) == ["docs"])
    }

    /// What is declared for a table that a full-text table reads, and which names change.
    struct Change: Sendable {
        var tables = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT, other TEXT);"
        var renamedTables: [String: String] = [:]
        var renamedColumns: [String: [String: String]] = [:]
        var allowsDrops = false
    }

    private static let changes = [
        Change(
            tables: "CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT, other TEXT);",
            renamedTables: ["messages": "notes"]
        ),
        Change(
            tables: "CREATE TABLE messages(id INTEGER PRIMARY KEY, text TEXT, other TEXT);",
            renamedColumns: ["messages": ["body": "text"]]
        ),
        Change(
            tables: "CREATE TABLE messages(id INTEGER PRIMARY KEY, text TEXT NOT NULL, other TEXT);",
            renamedColumns: ["messages": ["body": "text"]]
        ),
        Change(
            tables: "CREATE TABLE messages(id INTEGER PRIMARY KEY, other TEXT);",
            allowsDrops: true
        ),
        Change(tables: "CREATE TABLE more(x);", allowsDrops: true),
    ]

    private static let readers = [
        "CREATE VIRTUAL TABLE found USING fts4(content=\"messages\", body)",
        "CREATE VIRTUAL TABLE found USING fts4(content=messages)",
        "CREATE VIRTUAL TABLE found USING fts5(body, content='messages', content_rowid='id')",
        "CREATE VIEW shown AS SELECT id, body FROM messages; CREATE VIRTUAL TABLE found USING fts5(body UNINDEXED, content=[shown], content_rowid=id)",
    ]

    /// Otherwise the full-text table's module would not find what it reads.
    @Test(.needs(.fullText5), .needs(.dropColumn), arguments: changes, readers)
    func whatAFullTextTableReadsGetsNoOtherName(_ change: Change, _ reader: String) throws {
        let before = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT, other TEXT);"
        let database = try open(before + reader + "; INSERT INTO messages VALUES (1, 'some words', 'x')")
        var options = SchemaOptions()
        options.renamedTables = change.renamedTables
        options.renamedColumns = change.renamedColumns
        options.allowsDrops = change.allowsDrops
        // The view follows the table that it names.
        let followsTable = reader.contains("VIEW") && change.renamedTables != [:]
        let schema = DatabaseSchema(sql: change.tables)
        if followsTable {
            try database.upgrade(to: schema, options: options)
        } else {
            let error = #expect(throws: MigrationError.self) { try database.upgrade(to: schema, options: options) }
            #expect(error?.code == .unsupported && error?.table == "found")
            #expect(error?.message.contains("virtual table found reads") == true)
        }
        #expect(texts(try database.fetchAll("SELECT body FROM found WHERE rowid = 1")) == ["some words"])
        // Once the full-text table is dropped, it may be created anew.
        try database.execute("DROP TABLE found")
        try database.upgrade(to: schema, options: options)
    }

    @Test(.needs(.fullText5), .needs(.renameColumn)) func whatAFullTextTableDoesNotReadMayGetAnotherName() throws {
        let database = try open(
            """
            CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT, other TEXT); CREATE TABLE body(x);
            CREATE VIRTUAL TABLE found USING fts5(body, content='messages', content_rowid='id');
            CREATE VIRTUAL TABLE kept USING fts4(messages, body); CREATE VIRTUAL TABLE words USING fts4aux(kept);
            CREATE VIRTUAL TABLE bare USING fts5(body, content='');
            """
        )
        var options = SchemaOptions()
        options.renamedTables = ["body": "parts"]
        options.renamedColumns = ["messages": ["other": "another"], "parts": ["x": "y"]]
        let sql = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT, another TEXT); CREATE TABLE parts(y)"
        #expect(try database.upgrade(to: DatabaseSchema(sql: sql), options: options).changes.count == 3)
    }

    @Test func aTableOfItsNameMustGoFirst() throws {
        let schema = DatabaseSchema(sql: Self.virtual)
        let database = try open("CREATE TABLE docs(body)")
        let error = #expect(throws: MigrationError.self) { try database.upgrade(to: schema) }
        #expect(error?.message.contains("docs is a table, and the schema declares a virtual table") == true)
        var options = SchemaOptions()
        options.allowsDrops = true
        #expect(try database.upgrade(to: schema, options: options).changes.map(\.summary) == ["drop", "create"])
    }

    @Test(arguments: ["CREATE VIRTUAL TABLE d USING unknown(a)", "CREATE VIRTUAL TABLE d USING fts4(tokenize=unknown)"])
    func oneOfAnUnknownModuleIsRefusedByItsName(_ sql: String) throws {
        let database = try open()
        let error = #expect(throws: MigrationError.self) { try database.plan(for: DatabaseSchema(sql: sql)) }
        #expect(error?.code == .unsupported && error?.table == "d")
        #expect(error?.message.contains("leave it out of the schema") == true)
        #expect(error?.cause?.message.contains("unknown") == true)
    }

    @Test(arguments: ["CREATE TABLE temp.t(a)", "CREATE VIRTUAL TABLE temp.t USING fts4(a)", "CREATE TABLE main.t(a)"])
    func onlyTheFilesOwnObjectsAreDeclared(_ sql: String) throws {
        let database = try open()
        let schema = DatabaseSchema(sql: sql)
        if sql.contains("main") {
            #expect(try database.upgrade(to: schema).changes.map(\.name) == ["t"])
        } else {
            let error = #expect(throws: MigrationError.self) { try database.plan(for: schema) }
            #expect(error?.code == .misuse)
        }
    }
}
