internal import SQLText

/// Splits a script as it comes in, into statements and the lines between them that begin with a dot.
///
/// The reader gives a statement as soon as it has the line on which the statement's semicolon stands. So a program may
/// write a statement, and read its result before it writes the next.
struct ScriptReader {
    private let read: () throws -> [UInt8]?
    /// The bytes that came in and are not split yet.
    private var input: [UInt8] = []
    private var inputOffset = 0
    private var isAtEnd = false
    /// The lines of a statement that has not ended yet.
    private var pending: [UInt8] = []
    /// Whether `pending` has only spaces and comments.
    private var isPendingBlank = true
    /// The line on which `pending` begins.
    private var line = 1
    private var items: [ScriptItem] = []

    /// - Parameter read: Gives the next bytes; no bytes or `nil` at the end.
    init(read: @escaping () throws -> [UInt8]?) {
        self.read = read
    }

    /// The next piece; `nil` at the end.
    mutating func next() throws -> ScriptItem? {
        while items.isEmpty {
            guard let text = try nextLine() else {
                let rest = pending
                pending.removeAll()
                split(rest, isEnd: true)
                break
            }
            take(text)
        }
        return items.isEmpty ? nil : items.removeFirst()
    }

    /// The next line, including its line feed.
    private mutating func nextLine() throws -> [UInt8]? {
        var text: [UInt8] = []
        while true {
            if let end = input[inputOffset...].firstIndex(of: 0x0a) {
                text += input[inputOffset...end]
                inputOffset = end + 1
                return text
            }
            text += input[inputOffset...]
            input.removeAll(keepingCapacity: true)
            inputOffset = 0
            if !isAtEnd, let more = try read(), !more.isEmpty {
                input = more
            } else {
                isAtEnd = true
                return text.isEmpty ? nil : text
            }
        }
    }

    private mutating func take(_ text: [UInt8]) {
        if pending.isEmpty, text.first == UInt8(ascii: ".") {
            let command = text.reversed().drop { $0 == 0x0a || $0 == 0x0d || $0 == 0x20 || $0 == 0x09 }.reversed()
            items.append(.command(String(decoding: Array(command), as: UTF8.self), line: line))
            line += 1
            return
        }
        pending += text
        // Only a semicolon can end a statement, and only a line after blank lines can be blank.
        guard isPendingBlank || text.contains(UInt8(ascii: ";")) else { return }
        let taken = pending
        pending.removeAll(keepingCapacity: true)
        split(taken, isEnd: false)
    }

    /// Gives the statements that have ended, and keeps the rest.
    private mutating func split(_ bytes: [UInt8], isEnd: Bool) {
        // Each byte that is no text is replaced by one byte that may be in a name or a string, so that all offsets stay
        // the same.
        let unreadable = ScriptText.unreadable(bytes)
        var readable = bytes
        for offset in unreadable { readable[offset] = UInt8(ascii: "_") }
        let script = SQLScript(String(decoding: readable, as: UTF8.self))
        var start = 0
        for outline in script {
            guard outline.kind != .empty else { break }
            guard isEnd || hasEnded(outline, script) else { break }
            let begin = line + Self.lineFeeds(in: script.text(start..<outline.range.lowerBound))
            if unreadable.contains(where: outline.range.contains) {
                items.append(.unreadable(String(decoding: bytes[outline.range], as: UTF8.self), line: begin))
            } else {
                items.append(.statement(script.text(outline.range), line: begin))
            }
            line += Self.lineFeeds(in: script.text(start..<outline.endOffset))
            start = outline.endOffset
        }
        let rest = script.text(start..<script.utf8Count)
        isPendingBlank = Self.isBlank(rest)
        if isPendingBlank, !Self.isCommentOpen(rest) {
            line += Self.lineFeeds(in: rest)
        } else {
            pending = Array(bytes[start...])
        }
    }

    private func hasEnded(_ outline: StatementOutline, _ script: SQLScript) -> Bool {
        SQLTokenizer(script.text(outline.range.upperBound..<outline.endOffset)).contains { $0.kind == .semicolon }
    }

    private static func isBlank(_ text: String) -> Bool {
        SQLTokenizer(text).allSatisfy { $0.isTrivia || $0.kind == .semicolon }
    }

    /// Whether a comment at the end of a blank text has not ended yet.
    private static func isCommentOpen(_ text: String) -> Bool {
        guard let last = SQLTokenizer(text).reduce(nil, { $1 as Token? }), last.kind == .comment else { return false }
        let comment = text.utf8.dropFirst(last.range.lowerBound)
        return comment.starts(with: "/*".utf8) && !(comment.count >= 4 && comment.suffix(2).elementsEqual("*/".utf8))
    }

    private static func lineFeeds(in text: String) -> Int {
        text.utf8.count { $0 == 0x0a }
    }
}
