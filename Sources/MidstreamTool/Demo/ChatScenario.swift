internal import SQLiteConnection

/// A chat: users, chats, and many messages.
struct ChatScenario: DemoScenario {
    let tables = ["users", "chats", "messages", DemoClock.table]
    let summary: String
    private let users: Int64
    private let chats: Int64
    private let messages: Int64

    private static let schema = """
        CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seen INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE chats(id INTEGER PRIMARY KEY, title TEXT NOT NULL, messages INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY AUTOINCREMENT, chat INTEGER NOT NULL REFERENCES chats(id),
            sender INTEGER NOT NULL REFERENCES users(id), sent_at INTEGER NOT NULL, body TEXT, uuid TEXT NOT NULL UNIQUE);
        CREATE INDEX messages_by_chat ON messages(chat, sent_at);
        """

    private static let words = [
        "hello", "see", "you", "tomorrow", "at", "the", "station", "photo", "thanks", "meeting", "moved", "to", "noon",
        "who", "has", "keys", "great", "idea", "let", "us", "try", "that", "coffee", "später", "ça va", "好的", "👍",
    ]

    /// Writes a number of messages into an empty database.
    init(messages count: Int64, into connection: Connection) throws {
        var random = RandomNumbers(seed: 7)
        let users = max(2, count / 200)
        let chats = max(2, count / 400)
        try connection.execute(script: Self.schema)
        try connection.transaction {
            for id in 1...users {
                try connection.execute("INSERT INTO users(id, name) VALUES (?, ?)", [id, "user \(id)"])
            }
            for id in 1...chats {
                try connection.execute("INSERT INTO chats(id, title) VALUES (?, ?)", [id, "chat \(id)"])
            }
            for id in 0..<max(0, count) {
                try connection.execute(
                    "INSERT INTO messages(chat, sender, sent_at, body, uuid) VALUES (?, ?, ?, ?, ?)",
                    [
                        Int64.random(in: 1...chats, using: &random), Int64.random(in: 1...users, using: &random),
                        1_700_000_000 + id * 3, Self.body(&random), Self.uuid(&random),
                    ]
                )
            }
            try connection.execute("UPDATE chats SET messages = (SELECT count(*) FROM messages WHERE chat = chats.id)")
        }
        self.users = users
        self.chats = chats
        messages = count
        summary =
            "\(NumberText.grouped(count)) messages in \(NumberText.grouped(chats)) chats of "
            + "\(NumberText.grouped(users)) users"
    }

    private static func body(_ random: inout RandomNumbers) -> String {
        let count = Int.random(in: 3..<25, using: &random)
        return (0..<count).map { _ in words[Int.random(in: words.indices, using: &random)] }.joined(separator: " ")
    }

    private static func uuid(_ random: inout RandomNumbers) -> String {
        String(random.next(), radix: 16) + String(random.next(), radix: 16)
    }

    func read(_ random: inout RandomNumbers) -> DemoStatement {
        switch random.percent() {
        case ..<30:
            return DemoStatement("SELECT id, chat, sender, body FROM messages WHERE id = ?", random.id(messages))
        case ..<65:
            return DemoStatement(
                "SELECT m.id, u.name, m.body FROM messages AS m JOIN users AS u ON u.id = m.sender WHERE m.chat = ? "
                    + "ORDER BY m.sent_at DESC, m.id DESC LIMIT 20",
                random.id(chats)
            )
        case ..<80:
            return DemoStatement(
                "SELECT c.title, c.messages, (SELECT max(sent_at) FROM messages WHERE chat = c.id) FROM chats AS c WHERE c.id = ?",
                random.id(chats)
            )
        case ..<90: return DemoStatement("SELECT name, seen FROM users WHERE id = ?", random.id(users))
        case ..<95: return DemoStatement("SELECT count(*) FROM messages")
        default: return DemoStatement("SELECT count(*), max(id) FROM messages WHERE chat = ?", random.id(chats))
        }
    }

    func write(_ random: inout RandomNumbers) -> [DemoStatement] {
        let chat = random.id(chats)
        let id = random.id(messages)
        switch random.percent() {
        case ..<50:
            return [
                DemoStatement(
                    "INSERT INTO messages(chat, sender, sent_at, body, uuid) VALUES (?, ?, ?, ?, ?)",
                    chat,
                    random.id(users),
                    .integer(1_800_000_000 + Int64.random(in: 0..<1_000_000, using: &random)),
                    .text(Self.body(&random)),
                    .text(Self.uuid(&random))
                ),
                DemoStatement("UPDATE chats SET messages = messages + changes() WHERE id = ?", chat),
            ]
        case ..<65: return [DemoStatement("UPDATE messages SET body = body || ' (edited)' WHERE id = ?", id)]
        case ..<75:
            return [
                DemoStatement(
                    "UPDATE chats SET messages = messages - 1 WHERE id = (SELECT chat FROM messages WHERE id = ?)",
                    id
                ),
                DemoStatement("DELETE FROM messages WHERE id = ?", id),
            ]
        case ..<90: return [DemoStatement("UPDATE users SET seen = seen + 1 WHERE id = ?", random.id(users))]
        case ..<95:
            return [
                DemoStatement(
                    "INSERT INTO messages(chat, sender, sent_at, body, uuid) SELECT chat, sender, sent_at, body, uuid FROM "
                        + "messages WHERE id = ? ON CONFLICT(uuid) DO UPDATE SET body = excluded.body || ' (again)'",
                    id
                )
            ]
        default:
            return [
                // This key exists already: the error must be the one that SQLite gives.
                DemoStatement("INSERT INTO users(id, name) VALUES (?, 'nobody')", random.id(users)),
                DemoStatement("UPDATE messages SET sent_at = sent_at + 1 WHERE id BETWEEN ?1 AND ?1 + 10", id),
            ]
        }
    }

    let report = [
        DemoStatement("SELECT chat, count(*), max(sent_at) FROM messages GROUP BY chat ORDER BY chat LIMIT 50"),
        DemoStatement("SELECT count(*), sum(seen) FROM users"),
    ]

    let invariant = DemoStatement(
        "SELECT (SELECT count(*) FROM messages) - (SELECT sum(messages) FROM chats) AS difference"
    )
}
