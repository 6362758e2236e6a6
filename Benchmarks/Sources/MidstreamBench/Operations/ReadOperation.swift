internal import SQLiteConnection

/// A query that is measured.
struct ReadOperation {
    var name: String
    var sql: String
    /// Whether each run of the query has a transaction of its own.
    var isSingle = false
    /// Whether each run has its values in its text, so that SQLite must prepare it.
    var isPrepared = false
    /// The values of one run.
    var arguments: (inout Random) -> Arguments = { _ in [] }

    static func all(_ messages: Messages) -> [ReadOperation] {
        let key = { (random: inout Random) -> Arguments in [random.next(1...messages.rows)] }
        let chat = { (random: inout Random) -> Arguments in [random.next(0...messages.chats - 1)] }
        let point = "SELECT * FROM messages WHERE id = ?"
        return [
            ReadOperation(name: "point select by key", sql: point, arguments: key),
            ReadOperation(name: "the same, fetchOne alone", sql: point, isSingle: true, arguments: key),
            ReadOperation(name: "the same, prepared each time", sql: point, isPrepared: true, arguments: key),
            ReadOperation(
                name: "prepared, of a table that stays",
                sql: "SELECT * FROM picks WHERE position = ?",
                isPrepared: true,
                arguments: { [$0.next(1...messages.picks)] }
            ),
            ReadOperation(
                name: "point select by unique text",
                sql: "SELECT * FROM senders WHERE name = ?",
                arguments: { [Messages.senderName($0.next(0...Messages.senderCount - 1))] }
            ),
            ReadOperation(
                name: "range by key, LIMIT 20",
                sql: "SELECT * FROM messages WHERE id > ? ORDER BY id LIMIT 20",
                arguments: key
            ),
            ReadOperation(
                name: "range by index, ORDER BY, LIMIT 20",
                sql: "SELECT * FROM messages WHERE chat_id = ? ORDER BY created_at DESC LIMIT 20",
                arguments: chat
            ),
            ReadOperation(
                name: "the same, columns of the index",
                sql: "SELECT id, created_at FROM messages WHERE chat_id = ? ORDER BY created_at DESC LIMIT 20",
                arguments: chat
            ),
            ReadOperation(
                name: "next page by index, LIMIT 20",
                sql: """
                    SELECT * FROM messages WHERE chat_id = ? AND created_at < ? ORDER BY created_at DESC LIMIT 20
                    """,
                arguments: { random in
                    [
                        random.next(0...messages.chats - 1),
                        1_700_000_000 + 60 * random.next(messages.rows / 10...messages.rows),
                    ]
                }
            ),
            ReadOperation(name: "count(*)", sql: "SELECT count(*) FROM messages"),
            ReadOperation(
                name: "count by index (1,000 rows)",
                sql: "SELECT count(*) FROM messages WHERE chat_id = ?",
                arguments: chat
            ),
            ReadOperation(
                name: "join by key (\(messages.picks.grouped) rows)",
                sql: "SELECT count(*), sum(length(m.body)) FROM picks p JOIN messages m ON m.id = p.message_id"
            ),
            ReadOperation(
                name: "LEFT JOIN (20 rows)",
                sql: """
                    SELECT p.position, m.body FROM picks p LEFT JOIN messages m ON m.id = p.message_id
                    WHERE p.position BETWEEN ?1 AND ?1 + 19
                    """,
                arguments: { [$0.next(1...messages.picks - 19)] }
            ),
            ReadOperation(
                name: "correlated, newest of 200 chats",
                sql: """
                    SELECT c.id, (SELECT m.body FROM messages m WHERE m.chat_id = c.id ORDER BY m.created_at DESC LIMIT 1)
                    FROM chats c
                    """
            ),
            ReadOperation(
                name: "EXISTS (\(messages.picks.grouped) rows)",
                sql: """
                    SELECT count(*) FROM picks p
                    WHERE EXISTS (SELECT 1 FROM messages m WHERE m.id = p.message_id AND m.flags = 1)
                    """
            ),
            ReadOperation(
                name: "IN (SELECT), 1,000 keys",
                sql: """
                    SELECT count(*), max(created_at) FROM messages
                    WHERE id IN (SELECT message_id FROM picks WHERE position <= 1000)
                    """
            ),
            ReadOperation(
                name: "three tables (1,000 rows)",
                sql: """
                    SELECT count(*), sum(length(s.city)) FROM picks p JOIN messages m ON m.id = p.message_id
                    JOIN senders s ON s.name = m.sender WHERE p.position <= 1000
                    """
            ),
            ReadOperation(
                name: "self-join (1,000 rows)",
                sql:
                    "SELECT count(*), sum(b.flags) FROM messages a JOIN messages b ON b.id = a.id + 1 WHERE a.chat_id = ?",
                arguments: chat
            ),
            ReadOperation(
                name: "window over a chat (1,000 rows)",
                sql: """
                    SELECT max(place) FROM (SELECT row_number() OVER (ORDER BY created_at) AS place FROM messages
                    WHERE chat_id = ?)
                    """,
                arguments: chat
            ),
            ReadOperation(
                name: "DISTINCT chat_id",
                sql: "SELECT count(*) FROM (SELECT DISTINCT chat_id FROM messages)"
            ),
            ReadOperation(
                name: "GROUP BY chat_id",
                sql: "SELECT chat_id, count(*), max(created_at) FROM messages GROUP BY chat_id"
            ),
            ReadOperation(
                name: "full scan, all columns",
                sql:
                    "SELECT sum(length(body) + length(sender)), sum(id + chat_id), sum(created_at + flags) FROM messages"
            ),
            ReadOperation(name: "max(id)", sql: "SELECT max(id) FROM messages"),
            ReadOperation(name: "min(id)", sql: "SELECT min(id) FROM messages"),
            ReadOperation(
                name: "max(created_at) of a chat",
                sql: "SELECT max(created_at) FROM messages WHERE chat_id = ?",
                arguments: chat
            ),
            ReadOperation(name: "max(created_at), no index", sql: "SELECT max(created_at) FROM messages"),
        ]
    }

    func run(_ way: Contender, _ arguments: [Arguments]) throws {
        if isPrepared { return try way.readAnew(sql, arguments) }
        if isSingle { try way.readSingly(sql, arguments) } else { try way.read(sql, arguments) }
    }
}
