internal import SQLText

/// Makes text of a script's bytes.
enum ScriptText {
    /// The offsets of bytes that are no text: NULs, and bytes that are not valid UTF-8.
    static func unreadable(_ bytes: [UInt8]) -> [Int] {
        if !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil { return [] }
        var offsets: [Int] = []
        var (rest, offset) = (bytes.makeIterator(), 0)
        var parser = Unicode.UTF8.ForwardParser()
        while true {
            switch parser.parseScalar(from: &rest) {
            case .valid(let scalar):
                if scalar.first == 0 { offsets.append(offset) }
                offset += scalar.count
            case .error(let length):
                offsets += offset..<offset + length
                offset += length
            case .emptyInput: return offsets
            }
        }
    }

    /// - Throws: ``CommandFailure`` if some of the bytes are no text.
    static func whole(_ bytes: [UInt8], in file: String) throws(CommandFailure) -> String {
        guard let first = unreadable(bytes).first else { return String(decoding: bytes, as: UTF8.self) }
        let (line, column) = SQLScript(String(decoding: bytes[..<first], as: UTF8.self)).position(of: first)
        throw CommandFailure(placed("line \(line), column \(column): \(failure.message)", in: file))
    }

    /// A message of the library about a script that was read from a file, with the file's name as compilers give it:
    /// `new.sql:3:7: …`.
    ///
    /// - Parameter path: The file's path; `-` for standard input.
    static func placed(_ message: String, in path: String) -> String {
        let file = path == "-" ? "standard input" : path
        guard let match = message.firstMatch(of: #/^line (\d+), column (\d+): /#) else { return message }
        return "\(file):\(match.1):\(match.2): \(message[match.range.upperBound...])"
    }

    static let failure = CommandFailure(
        "the text is not valid UTF-8, or has a NUL: write such a value as CAST(x'…' AS TEXT)"
    )
}
