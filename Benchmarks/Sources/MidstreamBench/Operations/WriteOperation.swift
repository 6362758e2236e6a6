internal import SQLiteConnection

/// A write that is measured. What it inserts or deletes is restored afterwards, so that the table stays as it is.
struct WriteOperation {
    var name: String
    /// How many writes are measured at once.
    var count: Int
    /// The most writes that are measured in one state, since each write uses rows up.
    var limit = Int.max
    /// Chooses what the given number of writes write; `nil` if there is nothing for them to do.
    var choose: (inout KeyChoice, Int) -> [Int64]?
    var run: (Contender, [Int64]) throws -> Void
    /// Undoes the writes.
    var restore: (Contender, [Int64]) throws -> Void = { _, _ in }

    static func all(_ messages: Messages) -> [WriteOperation] {
        let few = Int(max(20, min(2000, messages.rows / 500)))
        let numbers = { (choice: inout KeyChoice, count: Int) -> [Int64]? in choice.newNumbers(count) }
        let moved = { (choice: inout KeyChoice, count: Int) -> [Int64]? in choice.moved(count) }
        let pending = { (choice: inout KeyChoice, count: Int) -> [Int64]? in choice.pending(count) }

        func insert(_ way: Contender, _ numbers: [Int64]) throws {
            for number in numbers {
                try way.execute(Messages.insert, Arguments(values: messages.newMessage(number)))
            }
        }
        func insertWithKey(_ way: Contender, _ numbers: [Int64]) throws {
            for number in numbers {
                let key = SQLiteValue.integer(messages.rows + 1000 + number)
                try way.execute(Messages.insertWithKey, Arguments(values: [key] + messages.newMessage(number)))
            }
        }
        func insertMany(_ way: Contender, _ numbers: [Int64]) throws {
            try way.writing { execute in
                for number in numbers {
                    try execute(Messages.insert, Arguments(values: messages.newMessage(number)))
                }
            }
        }
        func removeNew(_ way: Contender, _: [Int64]) throws {
            try way.execute("DELETE FROM messages WHERE id > ?", [messages.rows])
        }
        func update(_ way: Contender, _ keys: [Int64]) throws {
            for key in keys { try way.execute("UPDATE messages SET flags = flags + 1 WHERE id = ?", [key]) }
        }
        func updateMany(_ way: Contender, _ keys: [Int64]) throws {
            try way.writing { execute in
                for key in keys { try execute("UPDATE messages SET flags = flags + 1 WHERE id = ?", [key]) }
            }
        }
        func delete(_ way: Contender, _ keys: [Int64]) throws {
            for key in keys { try way.execute("DELETE FROM messages WHERE id = ?", [key]) }
        }
        func putBack(_ way: Contender, _ keys: [Int64]) throws {
            try way.writing { execute in
                for key in Set(keys) {
                    let values = [.integer(key)] + messages.newMessage(key)
                    try execute(Messages.insertWithKey, Arguments(values: values))
                }
            }
        }
        func updateChat(_ way: Contender, _ chats: [Int64]) throws {
            for chat in chats { try way.execute("UPDATE messages SET flags = flags + 1 WHERE chat_id = ?", [chat]) }
        }

        return [
            WriteOperation(
                name: "insert, SQLite chooses the key",
                count: 20,
                choose: numbers,
                run: insert,
                restore: removeNew
            ),
            WriteOperation(
                name: "insert with a key",
                count: 20,
                choose: numbers,
                run: insertWithKey,
                restore: removeNew
            ),
            WriteOperation(
                name: "insert 1,000 in a transaction",
                count: 1000,
                choose: numbers,
                run: insertMany,
                restore: removeNew
            ),
            WriteOperation(name: "update a moved row by key", count: 20, choose: moved, run: update),
            WriteOperation(name: "update a pending row by key", count: 20, limit: few, choose: pending, run: update),
            WriteOperation(
                name: "update 100 moved rows by key",
                count: 100,
                choose: moved,
                run: updateMany
            ),
            WriteOperation(
                name: "update 100 pending rows by key",
                count: 100,
                limit: few,
                choose: pending,
                run: updateMany
            ),
            WriteOperation(name: "delete a moved row by key", count: 20, choose: moved, run: delete, restore: putBack),
            WriteOperation(
                name: "delete a pending row by key",
                count: 20,
                limit: few,
                choose: pending,
                run: delete,
                restore: putBack
            ),
            WriteOperation(
                name: "update 1,000 rows by index",
                count: 1,
                limit: 8,
                choose: { choice, _ in choice.chat().map { [$0] } },
                run: updateChat
            ),
        ]
    }
}
