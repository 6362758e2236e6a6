/// A line that is no sqllogictest.
struct LogicSyntaxError: Error, Equatable, CustomStringConvertible {
    var script: String
    var line: Int
    var message: String

    var description: String { "\(script):\(line): \(message)" }
}

/// Reads sqllogictest scripts.
///
/// Source: <https://www.sqlite.org/sqllogictest/doc/trunk/about.wiki>.
struct LogicParser {
    private let name: String
    /// The engine's name and those of its features, in lower case: `skipif` and `onlyif` ask for them.
    private let names: Set<String>
    private var lines: LogicLines
    private var script: LogicScript
    private var isHalted = false

    static func parse(
        _ bytes: [UInt8],
        name: String,
        names: Set<String>
    ) throws(LogicSyntaxError) -> LogicScript {
        var parser = LogicParser(name: name, names: names, lines: LogicLines(bytes))
        return try parser.parse()
    }

    private init(name: String, names: Set<String>, lines: LogicLines) {
        self.name = name
        self.names = names
        self.lines = lines
        script = LogicScript(name: name, records: [])
    }

    private mutating func parse() throws(LogicSyntaxError) -> LogicScript {
        var isWanted = true
        while !isHalted, let line = lines.next() {
            guard !line.isEmpty, !line.utf8.starts(with: "#".utf8) else { continue }
            let words = line.split { $0 == " " || $0 == "\t" }.map(String.init)
            guard let first = words.first else { continue }
            switch first {
            case "skipif": if names.contains(try name(in: words)) { isWanted = false }
            case "onlyif": if !names.contains(try name(in: words)) { isWanted = false }
            default:
                try record(words, isWanted)
                isWanted = true
            }
        }
        return script
    }

    private mutating func record(_ words: [String], _ isWanted: Bool) throws(LogicSyntaxError) {
        switch words[0] {
        case "halt":
            if isWanted { isHalted = true }
        case "hash-threshold":
            // Lists and hashes are told apart by how they look, so that it need not be remembered.
            guard words.count > 1, Int(words[1]) != nil else { throw error("hash-threshold needs a number") }
        case "statement":
            guard words.count > 1, words[1] == "ok" || words[1] == "error" else {
                throw error("a statement is ok or error")
            }
            let line = lines.number
            let sql = text(upTo: nil)
            guard !sql.isEmpty else { throw error("the statement has no SQL") }
            add(LogicRecord(line: line, sql: sql, expectation: words[1] == "ok" ? .success : .failure), isWanted)
        case "query": try query(words, isWanted)
        default: throw error("\(words[0]) is unknown")
        }
    }

    private mutating func query(_ words: [String], _ isWanted: Bool) throws(LogicSyntaxError) {
        guard words.count > 1, words[1].allSatisfy({ "TIR".contains($0) }) else {
            throw error("a query needs the types of its columns, T, I or R")
        }
        var sort = LogicRecord.Sort.nosort
        if words.count > 2 {
            guard let known = LogicRecord.Sort(rawValue: words[2]) else { throw error("\(words[2]) is no way to sort") }
            sort = known
        }
        let line = lines.number
        var hasResult = false
        let sql = text(upTo: "----", &hasResult)
        guard !sql.isEmpty else { throw error("the query has no SQL") }
        let expected = hasResult ? Self.values(valueLines()) : nil
        let query = LogicRecord.Query(
            types: words[1],
            sort: sort,
            label: words.count > 3 ? words[3] : nil,
            expected: expected
        )
        add(LogicRecord(line: line, sql: sql, expectation: .query(query)), isWanted)
    }

    private mutating func add(_ record: LogicRecord, _ isWanted: Bool) {
        if isWanted { script.records.append(record) } else { script.leftOut += 1 }
    }

    /// The lines up to an empty one, or one that says `end`.
    private mutating func text(upTo end: String?, _ isEnded: inout Bool) -> String {
        var text = ""
        while let line = lines.next(), !line.isBlank {
            if line == end {
                isEnded = true
                break
            }
            if !text.isEmpty { text += "\n" }
            text += line
        }
        return text
    }

    private mutating func text(upTo end: String?) -> String {
        var isEnded = false
        return text(upTo: end, &isEnded)
    }

    private mutating func valueLines() -> [String] {
        var values: [String] = []
        while let line = lines.next(), !line.isBlank { values.append(line) }
        return values
    }

    /// `9 values hashing to 75c998aa53ac83218cbf2feb962d0a49`, or the values themselves.
    private static func values(_ lines: [String]) -> LogicRecord.Values {
        if lines.count == 1 {
            let words = lines[0].split(separator: " ")
            if words.count == 5, words[1...3] == ["values", "hashing", "to"], let count = Int(words[0]) {
                return .hash(count: count, md5: String(words[4]))
            }
        }
        return .list(lines)
    }

    private func name(in words: [String]) throws(LogicSyntaxError) -> String {
        guard words.count > 1 else { throw error("\(words[0]) needs a name") }
        return words[1].lowercased()
    }

    private func error(_ message: String) -> LogicSyntaxError {
        LogicSyntaxError(script: name, line: lines.number, message: message)
    }
}

extension String {
    fileprivate var isBlank: Bool { utf8.allSatisfy { $0 == 0x20 || $0 == 0x09 } }
}
