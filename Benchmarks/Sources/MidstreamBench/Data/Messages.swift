internal import SQLiteConnection

/// The tables that move: the messages of a chat application, and their senders.
struct Messages {
    let rows: Int64

    /// Each chat has about 1,000 messages, spread evenly over the table.
    var chats: Int64 { max(10, rows / 1000) }

    static let schema = """
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL, sender TEXT NOT NULL, body TEXT NOT NULL,
            created_at INTEGER NOT NULL, flags INTEGER NOT NULL)
        """
    static let index = "CREATE INDEX messages_by_chat ON messages(chat_id, created_at)"

    /// The senders, with unique names.
    static let senders = "CREATE TABLE senders(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, city TEXT)"
    static let senderCount: Int64 = 5000

    static func senderName(_ number: Int64) -> String {
        let digits = "\(number)"
        return "user" + String(repeating: "0", count: 6 - digits.count) + digits
    }

    /// The values of row `i`.
    private static let values =
        """
        i % ?2, printf('user%06d', i * 7919 % 5000), substr(?3, 1 + i * 31 % 400, 80 + i * 17 % 41),
        1700000000 + 60 * i + i * 7919 % 50, i % 4
        """

    private static let text = String(
        repeating: "The quick brown fox jumps over the lazy dog; pack my box with five dozen jugs. ",
        count: 8
    )

    /// The key of encrypted files.
    static let key = EncryptionKey.passphrase("midstream-bench")

    /// The first argument of a process that only makes a file, for a profiler.
    static let argument = "--make-messages"

    /// The work of the process that only makes a file.
    static func perform(_ arguments: [String]) throws {
        guard arguments.count == 2, let rows = Int64(arguments[1]) else {
            throw UsageError(message: "\(argument) takes a path and a number of rows")
        }
        try Messages(rows: rows).make(arguments[0])
    }

    /// Fills a new file with the table.
    func make(_ path: String, key: EncryptionKey? = nil) throws {
        let connection = try Connection(path: path, options: OpenOptions(key: key))
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = OFF")
        try connection.execute("PRAGMA synchronous = OFF")
        try connection.execute(Self.schema)
        try connection.transaction {
            try connection.execute(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                INSERT INTO messages SELECT i, \(Self.values) FROM n
                """,
                [rows, chats, Self.text]
            )
        }
        try connection.execute(Self.index)
        try connection.execute(Self.senders)
        try connection.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
            INSERT INTO senders SELECT i + 1, printf('user%06d', i), 'city ' || i % 97 FROM n
            """,
            [Self.senderCount]
        )
        try connection.execute("PRAGMA journal_mode = WAL")
    }

    /// Makes small tables that do not move: 20,000 keys of messages, and 200 chats.
    func makeSmallTables(_ way: Contender) throws {
        try way.execute("CREATE TABLE picks(position INTEGER PRIMARY KEY, message_id INTEGER NOT NULL)")
        try way.execute("CREATE TABLE chats(id INTEGER PRIMARY KEY)")
        var random = Random(seed: 3)
        let keys = (0..<picks).map { _ in random.next(1...rows) }
        try way.writing { execute in
            for key in keys { try execute("INSERT INTO picks(message_id) VALUES (?)", [key]) }
            for chat in 0..<min(200, chats) {
                try execute("INSERT INTO chats VALUES (?)", [chat * (chats / min(200, chats))])
            }
        }
    }

    var picks: Int64 { min(20_000, rows / 10) }

    static let insertWithKey =
        "INSERT INTO messages(id, chat_id, sender, body, created_at, flags) VALUES (?, ?, ?, ?, ?, ?)"
    static let insert = "INSERT INTO messages(chat_id, sender, body, created_at, flags) VALUES (?, ?, ?, ?, ?)"

    /// The values of a new message, without its key.
    func newMessage(_ number: Int64) -> [SQLiteValue] {
        [
            .integer(number % chats), .text("user\(100_000 + number % 900_000)"), .text(String(Self.text.prefix(100))),
            .integer(1_700_000_000 + 60 * (rows + number)), .integer(number % 4),
        ]
    }
}

/// Numbers that look random and are the same in each run.
struct Random {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next(_ range: ClosedRange<Int64>) -> Int64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        mixed ^= mixed >> 31
        return range.lowerBound + Int64(mixed % UInt64(range.upperBound - range.lowerBound + 1))
    }
}
