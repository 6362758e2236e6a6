internal import SQLiteConnection

/// How rows are moved without Midstream: a UNION ALL view over both files, triggers of the view that write to either
/// side, and rows that move one by one.
struct UnionView {
    let connection: Connection

    init(target: String, source: String) throws {
        connection = try Connection(path: target)
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.execute("PRAGMA synchronous = NORMAL")
        try connection.attach(source, as: "source")
        try connection.execute("PRAGMA source.synchronous = NORMAL")
        // A trigger cannot say which file it means, so the tables of the two files need different names.
        for text in [Messages.schema, Messages.index, Messages.senders] { try connection.execute(text) }
        for table in ["messages", "senders"] {
            try connection.execute("ALTER TABLE main.\(table) RENAME TO new_\(table)")
            try connection.execute("ALTER TABLE source.\(table) RENAME TO old_\(table)")
            try connection.execute(
                "CREATE TEMP VIEW \(table) AS SELECT * FROM new_\(table) UNION ALL SELECT * FROM old_\(table)"
            )
        }
        try connection.execute(
            """
            CREATE TEMP TRIGGER messages_insert INSTEAD OF INSERT ON messages BEGIN
                INSERT INTO new_messages VALUES (
                    coalesce(NEW.id, 1 + max(
                        (SELECT ifnull(max(id), 0) FROM new_messages), (SELECT ifnull(max(id), 0) FROM old_messages))),
                    NEW.chat_id, NEW.sender, NEW.body, NEW.created_at, NEW.flags);
            END
            """
        )
        // Each row takes two statements, one of which finds nothing.
        for (event, works) in [
            ("UPDATE", ["UPDATE new_messages SET flags = NEW.flags", "UPDATE old_messages SET flags = NEW.flags"]),
            ("DELETE", ["DELETE FROM new_messages", "DELETE FROM old_messages"]),
        ] {
            let body = works.map { $0 + " WHERE id = OLD.id;" }.joined(separator: " ")
            try connection.execute(
                "CREATE TEMP TRIGGER messages_\(event) INSTEAD OF \(event) ON messages BEGIN \(body) END"
            )
        }
    }

    /// Moves all rows up to the given part at once.
    func advance(to watermark: Int64, of rows: Int64) throws {
        let senders = Messages.senderCount * watermark / rows
        try connection.transaction(.immediate) {
            for (table, last) in [("messages", watermark), ("senders", senders)] {
                try connection.execute(
                    "INSERT OR IGNORE INTO new_\(table) SELECT * FROM old_\(table) WHERE id <= ?",
                    [last]
                )
                try connection.execute("DELETE FROM old_\(table) WHERE id <= ?", [last])
            }
        }
    }

    /// Moves rows one by one, each in a transaction of its own that writes both files.
    func moveSingly(_ keys: ClosedRange<Int64>) throws {
        for key in keys {
            try connection.transaction(.immediate) {
                try connection.execute("INSERT INTO new_messages SELECT * FROM old_messages WHERE id = ?", [key])
                try connection.execute("DELETE FROM old_messages WHERE id = ?", [key])
            }
        }
    }
}
