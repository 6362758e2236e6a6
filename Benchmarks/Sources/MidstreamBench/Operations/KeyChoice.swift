/// Chooses the rows for measuring writes, so that each write finds its row moved, or pending, as it should be.
struct KeyChoice {
    let messages: Messages
    /// The rows up to this key have moved.
    private(set) var watermark: Int64 = 0
    /// Keys behind the watermark whose rows may be in the target already.
    private var promoted: Set<Int64> = []
    private var random = Random(seed: 11)
    private var nextChat: Int64 = 0
    /// The next number for new keys and new messages.
    private var nextNumber: Int64 = 1

    init(_ messages: Messages) { self.messages = messages }

    var hasMoved: Bool { watermark > 0 }
    var hasPending: Bool { watermark < messages.rows }

    mutating func moved(_ count: Int) -> [Int64]? {
        guard hasMoved else { return nil }
        return (0..<count).map { _ in random.next(1...watermark) }
    }

    /// Keys of pending rows; `nil` if few are left. Once they have been used, the rows are not pending any more.
    mutating func pending(_ count: Int) -> [Int64]? {
        var keys: [Int64] = []
        var tries = 0
        while keys.count < count {
            tries += 1
            guard hasPending, tries < count * 20 else { return nil }
            // Each new row promotes the last row.
            let key = random.next(watermark + 1...messages.rows)
            if key != messages.rows, promoted.insert(key).inserted { keys.append(key) }
        }
        return keys
    }

    /// A chat whose rows nothing has written yet; `nil` if few are left. Its pending rows get promoted.
    mutating func chat() -> Int64? {
        guard nextChat < messages.chats / 2 else { return nil }
        // The chats are not next to each other.
        let chat = nextChat * 7 % messages.chats
        nextChat += 1
        var key = chat == 0 ? messages.chats : chat
        while key <= messages.rows {
            if key > watermark { promoted.insert(key) }
            key += messages.chats
        }
        return chat
    }

    mutating func newNumbers(_ count: Int) -> [Int64] {
        defer { nextNumber += Int64(count) }
        return (0..<Int64(count)).map { nextNumber + $0 }
    }

    /// Goes on to another watermark.
    ///
    /// - Returns: How many pending rows must be moved for that.
    mutating func advance(to newWatermark: Int64) -> Int64 {
        promoted.insert(messages.rows)
        let settled = promoted.filter { $0 > watermark && $0 <= newWatermark }
        defer { watermark = newWatermark }
        return newWatermark - watermark - Int64(settled.count)
    }
}
