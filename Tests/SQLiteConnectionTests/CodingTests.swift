import SQLiteConnection
import Testing

@Suite struct `Codable rows` {
    enum Color: String, Codable { case red, green }
    enum Level: Int8, Codable { case low = 1, high = 2 }
    struct Name: Codable, Hashable {
        var text: String
        init(text: String) { self.text = text }
        init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(text)
        }
    }
    struct Everything: Codable, Equatable {
        var id: Int64?
        var int = -1
        var int8 = Int8.min
        var int16 = Int16.min
        var int32 = Int32.min
        var int64 = Int64.min
        var uint: UInt = 1
        var uint8 = UInt8.max
        var uint16 = UInt16.max
        var uint32 = UInt32.max
        var uint64: UInt64 = 1 << 62
        var double = 0.1
        var float: Float = 0.5
        var yes = true
        var no = false
        var text = "a\0é"
        var bytes: [UInt8] = [0, 255]
        var color = Color.green
        var level = Level.high
        var name = Name(text: "Ann")
        var someText: String? = ""
        var noText: String?
        var someBytes: [UInt8]? = []
        var noBytes: [UInt8]?
        var someColor: Color? = .red
        var noColor: Color?
        var noName: Name?
    }

    private func tableOfEverything() throws -> Connection {
        let connection = try memory()
        let (columns, _) = try RecordEncoder().encode(
            Everything(id: 1, noText: "", noBytes: [], noColor: .red, noName: Name(text: ""))
        )
        try connection.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns.dropFirst().joined(separator: ", ")))"
        )
        return connection
    }

    @Test func `come back as they were inserted`() throws {
        let connection = try tableOfEverything()
        var record = Everything()
        for id in 1...3 as ClosedRange<Int64> {
            try connection.insert(record, into: "t")
            record.id = id
            #expect(try connection.fetchOne(Everything.self, "SELECT * FROM t WHERE id = ?", [id]) == record)
            record.id = nil
        }
        #expect(try connection.fetchAll(Everything.self, "SELECT * FROM t").map(\.id) == [1, 2, 3])
        #expect(try connection.fetchOne(Everything.self, "SELECT * FROM t WHERE id = 9") == nil)
    }

    @Test func `are read by name, in any order and letter case, with columns to spare`() throws {
        struct Pair: Codable, Equatable { var a: Int; var b: String? }
        let connection = try memory()
        #expect(try connection.fetchOne(Pair.self, "SELECT 'x' AS B, 0 AS z, 1 AS A") == Pair(a: 1, b: "x"))
        #expect(try connection.fetchOne(Pair.self, "SELECT 1 AS a") == Pair(a: 1, b: nil))
        #expect(try connection.fetchOne(Pair.self, "SELECT 1 AS a, NULL AS b") == Pair(a: 1, b: nil))
    }

    @Test func `take the columns that a row has after a schema change`() throws {
        struct Pair: Codable, Equatable { var a: Int; var b: Int? }
        let connection = try memory()
        try connection.execute(script: "CREATE TABLE t(a); INSERT INTO t VALUES (1)")
        #expect(try connection.fetchAll(Pair.self, "SELECT * FROM t") == [Pair(a: 1)])
        try connection.execute(script: "DROP TABLE t; CREATE TABLE t(b, a); INSERT INTO t VALUES (2, 3)")
        #expect(try connection.fetchAll(Pair.self, "SELECT * FROM t") == [Pair(a: 3, b: 2)])
    }

    @Test func `may be single values`() throws {
        let connection = try memory()
        let sql = "SELECT 1 AS v UNION ALL SELECT 2"
        #expect(try connection.fetchAll(Int.self, sql) == [1, 2])
        #expect(try connection.fetchAll(Level.self, sql) == [.low, .high])
        #expect(try connection.fetchAll(Int?.self, "SELECT NULL UNION ALL SELECT 2") == [nil, 2])
        #expect(try connection.fetchOne([UInt8].self, "SELECT x'0102'") == [1, 2])
        #expect(try connection.fetchOne(Name.self, "SELECT 'Ann'") == Name(text: "Ann"))
        #expect(try connection.fetchOne(String.self, "SELECT 'Ann'") == "Ann")
    }

    @Test func `may ask for different keys in each row`() throws {
        struct Variant: Decodable, Equatable {
            var kind: Int
            var value: String
            enum Keys: String, CodingKey { case kind, a, b }
            init(kind: Int, value: String) { (self.kind, self.value) = (kind, value) }
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: Keys.self)
                kind = try container.decode(Int.self, forKey: .kind)
                value = try container.decode(String.self, forKey: kind == 1 ? .a : .b)
                #expect(container.allKeys.count == 3)
                #expect(try container.decodeNil(forKey: .kind) == false)
                #expect(container.contains(.a))
            }
        }
        let sql = "WITH t(kind, a, b) AS (VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2'), (1, 'a3', 'b3')) SELECT * FROM t"
        #expect(
            try memory().fetchAll(Variant.self, sql) == [
                Variant(kind: 1, value: "a1"), Variant(kind: 2, value: "b2"), Variant(kind: 1, value: "a3"),
            ]
        )
    }

    @Test func `may have keys that are not known in advance`() throws {
        struct Anything: Decodable {
            struct Key: CodingKey {
                let stringValue: String
                var intValue: Int? { nil }
                init(stringValue: String) { self.stringValue = stringValue }
                init?(intValue _: Int) { nil }
            }
            var values: [String: Int] = [:]
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: Key.self)
                for key in container.allKeys { values[key.stringValue] = try container.decode(Int.self, forKey: key) }
            }
        }
        #expect(try memory().fetchOne(Anything.self, "SELECT 1 AS a, 2 AS b")?.values == ["a": 1, "b": 2])
    }

    @Test func `may have one key only`() throws {
        struct One: Codable, Equatable { var a: Int }
        #expect(try memory().fetchAll(One.self, "SELECT 1 AS a UNION ALL SELECT 2") == [One(a: 1), One(a: 2)])
    }

    @Test func `may be flattened, inherited and generic`() throws {
        struct Inner: Codable, Equatable { var b: Int }
        struct Outer: Codable, Equatable {
            var a: Int
            var inner: Inner
            enum CodingKeys: CodingKey { case a }
            init(a: Int, b: Int) { (self.a, inner) = (a, Inner(b: b)) }
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: CodingKeys.self)
                inner = try Inner(from: decoder)
                a = try container.decode(Int.self, forKey: .a)
            }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(a, forKey: .a)
                try inner.encode(to: encoder)
            }
        }
        class Base: Codable { var a = 1 }
        class Derived: Base {
            var b = 2
            enum CodingKeys: CodingKey { case b }
            override init() { super.init() }
            required init(from decoder: any Decoder) throws {
                b = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .b)
                try super.init(from: decoder)
            }
            override func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(b, forKey: .b)
                try super.encode(to: container.superEncoder())
            }
        }
        struct Generic<Value: Codable>: Codable { var a: Value }
        let connection = try memory()
        let sql = "SELECT 1 AS a, 2 AS b UNION ALL SELECT 3, 4"
        #expect(try connection.fetchAll(Outer.self, sql) == [Outer(a: 1, b: 2), Outer(a: 3, b: 4)])
        #expect(try connection.fetchAll(Derived.self, sql).map { [$0.a, $0.b] } == [[1, 2], [3, 4]])
        #expect(try connection.fetchAll(Generic<Int?>.self, sql).map(\.a) == [1, 3])
        #expect(try RecordEncoder().encode(Outer(a: 1, b: 2)).columns == ["a", "b"])
        #expect(try RecordEncoder().encode(Derived()).columns == ["b", "a"])
        #expect(try RecordEncoder().encode(Generic<Int?>(a: nil)).values == [.null])
    }

    @Test(arguments: [
        ("SELECT 'secret' AS v", "column v holds text, which cannot be read as Int8"),
        ("SELECT 128 AS v", "column v holds integer, which cannot be read as Int8"),
        ("SELECT 1.5 AS v", "column v holds real, which cannot be read as Int8"),
        ("SELECT NULL AS v", "column v holds null, which cannot be read as Int8"),
        ("SELECT x'00' AS v", "column v holds blob, which cannot be read as Int8"),
        ("SELECT 1 AS w", "Record cannot be read: no column is named v; the row has w"),
    ]) func `that cannot be read name column and type`(sql: String, message: String) throws {
        struct Record: Codable { var v: Int8 }
        let error = try sqliteError { _ = try memory().fetchAll(Record.self, sql) }
        #expect(error.message == message)
        #expect(error.sql == sql)
    }

    @Test func `that lack a column name the type, the property and the columns`() throws {
        struct User: Codable { var id: Int, userId: Int }
        let sql = "SELECT 1 AS id, 'secret' AS name"
        let error = try sqliteError { _ = try memory().fetchOne(User.self, sql) }
        let message = "User cannot be read: no column is named userId; the row has id, name"
        #expect(error.message == message)
        #expect("\(error)" == "\(message), in: \(sql)")
        let row = try #require(try memory().fetchOne(sql))
        #expect(
            try sqliteError { _ = try row.get("userId", as: Int.self) }.description
                == "no column is named userId; the row has id, name"
        )
        let wide = "SELECT " + (1...30).map { "\($0) AS c\($0)" }.joined(separator: ", ")
        let other = try sqliteError { _ = try memory().fetchOne(User.self, wide) }
        #expect(other.message.hasSuffix("; the row has \((1...20).map { "c\($0)" }.joined(separator: ", ")), …"))
    }

    @Test func `that cannot be read hide what they hold`() throws {
        struct Record: Codable { var v: Color }
        for sql in ["SELECT ? AS v", "SELECT ? || '' AS v"] {
            let error = try sqliteError { _ = try memory().fetchAll(Record.self, sql, ["secret"]) }
            #expect(error.message == "column v holds text, which cannot be read as Color")
            #expect(!"\(error)".contains("secret"))
        }
        #expect(
            try sqliteError { _ = try memory().fetchAll(Color.self, "SELECT 'secret'") }.message
                == "the row cannot be read as Color"
        )
    }

    @Test func `whole doubles are integers, integers are doubles`() throws {
        struct Record: Codable, Equatable { var i: Int; var d: Double; var f: Float; var b: Bool }
        #expect(
            try memory().fetchOne(Record.self, "SELECT 2.0 AS i, 3 AS d, 4 AS f, 5 AS b")
                == Record(i: 2, d: 3, f: 4, b: true)
        )
        struct Wide: Codable { var v: UInt64 }
        #expect(throws: SQLiteError.self) { try memory().fetchOne(Wide.self, "SELECT -1 AS v") }
    }

    @Test func `with objects or lists inside are refused`() throws {
        struct Inner: Codable { var x = 1 }
        struct WithObject: Codable { var inner = Inner() }
        struct WithList: Codable { var list = ["a"] }
        struct WithEmptyList: Codable { var list: [String] = [] }
        struct Manual: Encodable {
            enum Keys: CodingKey { case inner }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                _ = container.nestedContainer(keyedBy: Keys.self, forKey: .inner)
            }
        }
        let connection = try memory()
        let object = try sqliteError { try connection.insert(WithObject(), into: "t") }
        #expect(object.code == .mismatch)
        #expect(
            object.message == "column inner would hold an object; encode it as one value, such as text, or flatten it"
        )
        #expect(try sqliteError { try connection.insert(WithList(), into: "t") }.message.contains("column list"))
        #expect(try sqliteError { try connection.insert(WithEmptyList(), into: "t") }.message.contains("column list"))
        #expect(try sqliteError { try connection.insert(Manual(), into: "t") }.message.contains("column inner"))
        #expect(throws: SQLiteError.self) { try connection.insert(1, into: "t") }
        #expect(throws: SQLiteError.self) { try connection.insert([1], into: "t") }
        #expect(
            try sqliteError { _ = try connection.fetchOne(WithObject.self, "SELECT 1 AS inner") }.message
                == "column inner is a single value, and has no columns inside"
        )
        #expect(
            try sqliteError { _ = try connection.fetchOne(WithList.self, "SELECT 1 AS list") }.message
                == "column list is a single value, not a list"
        )
        #expect(throws: SQLiteError.self) { try connection.fetchOne([Int].self, "SELECT 1") }
    }

    @Test func `integers that SQLite cannot hold are refused`() throws {
        struct Record: Codable { var v = UInt64.max }
        let error = try sqliteError { _ = try RecordEncoder().encode(Record()) }
        #expect(error.message == "column v: the UInt64 is larger than an integer of SQLite")
    }

    @Test func `a nil property is left to SQLite, an encoded nil is NULL`() throws {
        struct Explicit: Encodable {
            enum Keys: CodingKey { case a, b }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                try container.encodeNil(forKey: .a)
                try container.encode(1, forKey: .b)
                try container.encode(2, forKey: .b)
            }
        }
        let (columns, values) = try RecordEncoder().encode(Explicit())
        #expect(columns == ["a", "b"])
        #expect(values == [nil, 2])
        struct Empty: Codable { var a: Int? }
        let connection = try memory()
        try connection.execute("CREATE TABLE t(a DEFAULT 7)")
        try connection.insert(Empty(), into: "t")
        #expect(try connection.fetchValue(Int.self, "SELECT a FROM t") == 7)
    }

    @Test func `names are quoted`() throws {
        struct Record: Codable, Equatable {
            var value: Int
            enum CodingKeys: String, CodingKey { case value = "select \"x\"" }
        }
        #expect(
            RecordEncoder.insertSQL(table: "a\"b", columns: ["x", "y z"])
                == #"INSERT INTO "a""b"("x", "y z") VALUES (?, ?)"#
        )
        let connection = try memory()
        try connection.execute(#"CREATE TABLE "order ""by"([select "x"])"#)
        try connection.insert(Record(value: 3), into: "order \"by")
        #expect(try connection.fetchAll(Record.self, #"SELECT * FROM "order ""by""#) == [Record(value: 3)])
    }

    @Test func `a decoder that is kept reads nothing later`() throws {
        final class Keeper: Decodable {
            enum Keys: CodingKey { case a }
            let decoder: any Decoder
            let container: KeyedDecodingContainer<Keys>
            init(from decoder: any Decoder) throws {
                self.decoder = decoder
                container = try decoder.container(keyedBy: Keys.self)
            }
        }
        let keeper = try #require(try memory().fetchOne(Keeper.self, "SELECT 1 AS a"))
        #expect(throws: SQLiteError.self) { try keeper.container.decode(Int.self, forKey: .a) }
        #expect(throws: SQLiteError.self) { try Int(from: keeper.decoder) }
    }

    @Test func `decoding can decode from the same statement`() throws {
        struct Plain: Codable { var a: Int }
        struct Nested: Decodable {
            var sum: Int
            enum Keys: CodingKey { case a }
            init(from decoder: any Decoder) throws {
                let statement = try #require(decoder.userInfo[.statement] as? Statement)
                let container = try decoder.container(keyedBy: Keys.self)
                let inner = try StatementDecoder().decode(Plain.self, from: statement)
                sum = try container.decode(Int.self, forKey: .a) + inner.a
            }
        }
        let statement = try memory().prepare("SELECT 1 AS a")
        #expect(try statement.step())
        let decoder = StatementDecoder(userInfo: [.statement: statement])
        #expect(try decoder.decode(Nested.self, from: statement).sum == 2)
    }
}

extension CodingUserInfoKey {
    fileprivate static let statement = CodingUserInfoKey(rawValue: "statement")!
}
