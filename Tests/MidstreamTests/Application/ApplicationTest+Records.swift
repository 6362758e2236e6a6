import Midstream
import SQLiteConnection
import Testing

// Records, in and out.

private enum Color: String, Codable { case red, green }
private enum Level: Int8, Codable { case low = 1, high = 2 }

private struct Name: Codable, Hashable {
    var text: String
    init(_ text: String) { self.text = text }
    init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

private struct Everything: Codable, Equatable {
    var id: Int64?
    var int = -1
    var int8 = Int8.min
    var int64 = Int64.min
    var uint64: UInt64 = 1 << 62
    var double = 0.1
    var float: Float = 0.5
    var yes = true
    var text = "a\0é"
    var bytes: [UInt8] = [0, 255]
    var color = Color.green
    var level = Level.high
    var name = Name("Ann")
    var someText: String? = ""
    var noText: String?
    var someBytes: [UInt8]? = []
    var noColor: Color?
    var noName: Name?

    static let schema =
        "CREATE TABLE everything(id INTEGER PRIMARY KEY, int, int8, int64, uint64, double, float, yes, text, bytes, color, level, "
        + "name, someText, noText, someBytes, noColor, noName)"
}

private struct Person: Codable, Hashable {
    var id: Int64?
    var name: String
    var email: String?
    var team: Int
    var score: Double = 0

    static let schema = """
        CREATE TABLE teams(id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE);
        CREATE TABLE people(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL CHECK (length(name) > 0),
            email TEXT UNIQUE COLLATE NOCASE, team INTEGER NOT NULL REFERENCES teams, score REAL NOT NULL DEFAULT 0);
        CREATE INDEX people_by_team ON people(team, name);
        CREATE VIEW roster AS SELECT p.name, t.title AS team, p.score FROM people AS p JOIN teams AS t ON t.id = p.team;
        """

    static func fill(_ connection: Connection) throws {
        for team in 1...5 { try connection.execute("INSERT INTO teams VALUES (?, ?)", [team, "team \(team)"]) }
        for id in 1...100 {
            let email = id % 4 == 0 ? nil : "p\(id)@example.com"
            let person = Person(
                id: Int64(id),
                name: "person \(id)",
                email: email,
                team: id % 5 + 1,
                score: Double(id) / 4
            )
            try connection.insert(person, into: "people")
        }
    }
}

extension ApplicationTest {
    private static func ofPeople(
        _ name: String,
        _ body: @escaping @Sendable (Database) async throws -> Void
    ) -> ApplicationTest {
        ApplicationTest(name, schema: Person.schema, tables: ["teams", "people"], rows: Person.fill, body: body)
    }

    private static func failure(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch let error as SQLiteError {
            return "\(error.code.rawValue): \(error.message)"
        } catch {
            return "\(error)"
        }
    }

    static let records: [ApplicationTest] = [
        ApplicationTest(
            "Values of every type come back as they were stored",
            schema: Everything.schema,
            tables: ["everything"],
            rows: { connection in
                for id in 1...60 as ClosedRange<Int64> {
                    var record = Everything(id: id)
                    record.int = Int(id)
                    record.noText = id % 2 == 0 ? "text \(id)" : nil
                    try connection.insert(record, into: "everything")
                }
            },
            body: { database in
                for id in [1, 30, 31, 60] as [Int64] {
                    var expected = Everything(id: id)
                    expected.int = Int(id)
                    expected.noText = id % 2 == 0 ? "text \(id)" : nil
                    let found = try database.fetchOne(Everything.self, "SELECT * FROM everything WHERE id = ?", [id])
                    #expect(found == expected)
                }
                let all = try database.fetchAll(Everything.self, "SELECT * FROM everything")
                #expect(all.map(\.id) == (1...60).map { $0 })
                #expect(all.filter { $0.noText == nil }.count == 30)
                var record = Everything()
                for id in 61...63 as ClosedRange<Int64> {
                    try database.insert(record, into: "everything")
                    record.id = id
                    #expect(
                        try database.fetchOne(Everything.self, "SELECT * FROM everything WHERE id = ?", [id]) == record
                    )
                    record.id = nil
                }
                #expect(try database.fetchOne(Everything.self, "SELECT * FROM everything WHERE id = 99") == nil)
                let types =
                    "SELECT DISTINCT typeof(int8), typeof(double), typeof(text), typeof(bytes), typeof(noName) FROM everything"
                #expect(texts(try database.fetchAll(types)) == ["integer|real|text|blob|null"])
            }
        ),
        ofPeople("Rows are read by name, in any order and letter case, with columns to spare") { database in
            struct Card: Codable, Equatable { var name: String; var email: String? }
            let sql = "SELECT team, EMAIL, NAME FROM people WHERE id IN (3, 4, 97, 100) ORDER BY id"
            #expect(
                try database.fetchAll(Card.self, sql) == [
                    Card(name: "person 3", email: "p3@example.com"), Card(name: "person 4", email: nil),
                    Card(name: "person 97", email: "p97@example.com"), Card(name: "person 100", email: nil),
                ]
            )
            let row = try #require(try database.fetchOne("SELECT * FROM people WHERE id = 98"))
            #expect(try row.get("Name", as: String.self) == "person 98")
            #expect(row["email"] == .text("p98@example.com") && row["nothing"] == nil)
            #expect(try row.get(4, as: Double.self) == 24.5)
            #expect(row.columns.names == ["id", "name", "email", "team", "score"])
        },
        ofPeople("What cannot be read names the column and its type") { database in
            struct Strict: Codable { var email: String }
            struct Missing: Codable { var phone: String }
            let sql = "SELECT email FROM people WHERE id IN (98, 100) ORDER BY id"
            let found = failure { _ = try database.fetchAll(Strict.self, sql) }
            #expect(found?.hasSuffix("column email holds null, which cannot be read as String") == true)
            let missing = failure { _ = try database.fetchAll(Missing.self, "SELECT * FROM people") }
            #expect(missing?.hasSuffix("no column is named phone; the row has id, name, email, team, score") == true)
        },
        ofPeople("A record without an id gets the next one") { database in
            try database.write { access in
                for number in 1...3 as ClosedRange<Int64> {
                    try access.insert(Person(name: "new \(number)", team: 2), into: "people")
                    #expect(access.lastInsertRowID == 100 + number && access.changes == 1)
                }
                // AUTOINCREMENT takes no id twice.
                try access.execute("DELETE FROM people WHERE id > 90")
                #expect(access.changes == 13)
                try access.insert(Person(name: "last", team: 1), into: "people")
                #expect(access.lastInsertRowID == 104)
            }
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM people") == 91)
        },
        ofPeople("Records are read, changed and stored again") { database in
            try database.write { access in
                for var person in try access.fetchAll(Person.self, "SELECT * FROM people WHERE team = 3") {
                    person.score *= 2
                    person.name = person.name.uppercased()
                    try access.execute(
                        "UPDATE people SET name = :name, score = :score WHERE id = :id",
                        [":id": person.id, ":name": person.name, ":score": person.score]
                    )
                    #expect(access.changes == 1)
                    #expect(
                        try access.fetchOne(Person.self, "SELECT * FROM people WHERE id = ?", [person.id]) == person
                    )
                }
            }
            #expect(try database.fetchValue(Double.self, "SELECT sum(score) FROM people WHERE team = 3") == 495)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM people WHERE name GLOB 'PERSON*'") == 20)
        },
        ofPeople("Constraints refuse what they refuse, and leave the rest") { database in
            let before = try database.fetchAll(Person.self, "SELECT * FROM people ORDER BY id")
            for (id, email) in [(1, "p99@example.com"), (99, "P1@EXAMPLE.COM")] as [(Int64, String)] {
                let message = failure { try database.insert(Person(name: "x", email: email, team: 1), into: "people") }
                #expect(message == "2067: UNIQUE constraint failed: people.email", "\(id)")
                let update = failure { try database.execute("UPDATE people SET email = ? WHERE id = ?", [email, id]) }
                #expect(update == "2067: UNIQUE constraint failed: people.email")
            }
            for id in [1, 51, 100] as [Int64] {
                let key = failure { try database.insert(Person(id: id, name: "x", team: 1), into: "people") }
                #expect(key == "1555: UNIQUE constraint failed: people.id")
                let null = failure { try database.execute("UPDATE people SET name = NULL WHERE id = ?", [id]) }
                #expect(null == "1299: NOT NULL constraint failed: people.name")
                let check = failure { try database.execute("UPDATE people SET name = '' WHERE id >= ?", [id]) }
                #expect(check?.hasPrefix("275: CHECK constraint failed") == true)
            }
            #expect(try database.fetchAll(Person.self, "SELECT * FROM people ORDER BY id") == before)
        },
        ofPeople("Groups, joins and views give records of their own") { database in
            struct Standing: Codable, Equatable { var team: String; var people: Int; var best: Double }
            let sql = "SELECT team, count(*) AS people, max(score) AS best FROM roster GROUP BY team ORDER BY team"
            #expect(
                try database.fetchAll(Standing.self, sql)
                    == (1...5).map {
                        Standing(team: "team \($0)", people: 20, best: Double($0 == 1 ? 100 : 94 + $0) / 4)
                    }
            )
            try database.execute(
                "UPDATE people SET team = 1 WHERE id IN (SELECT id FROM people WHERE team = 2 LIMIT 20)"
            )
            #expect(try database.fetchOne(Int.self, "SELECT count(*) FROM roster WHERE team = 'team 1'") == 40)
            #expect(
                try database.fetchAll(String.self, "SELECT title FROM teams WHERE id NOT IN (SELECT team FROM people)")
                    == ["team 2"]
            )
        },
        ofPeople("Pages follow each other without gaps") { database in
            var (last, pages, seen) = ("", 0, [String]())
            while true {
                let page = try database.fetchAll(
                    Person.self,
                    "SELECT * FROM people WHERE name > ? ORDER BY name LIMIT 7",
                    [last]
                )
                guard let end = page.last else { break }
                (last, pages) = (end.name, pages + 1)
                seen += page.map(\.name)
            }
            #expect(pages == 15 && seen == (1...100).map { "person \($0)" }.sorted())
            let offset = try database.fetchAll(Int64.self, "SELECT id FROM people ORDER BY id DESC LIMIT 3 OFFSET 48")
            #expect(offset == [52, 51, 50])
        },
    ]
}
