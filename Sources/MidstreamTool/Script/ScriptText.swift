/// The text of a script, from its bytes.
enum ScriptText {
    /// The offsets of bytes that are no text: NULs, and what is not valid UTF-8.
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

    /// - Throws: ``CommandFailure`` when not all of it is text.
    static func whole(_ bytes: [UInt8]) throws(CommandFailure) -> String {
        guard let first = unreadable(bytes).first else { return String(decoding: bytes, as: UTF8.self) }
        let line = bytes[..<first].count { $0 == 0x0a } + 1
        throw CommandFailure("near line \(line) of the script: \(failure.message)")
    }

    /// What the library says of a script that was read from a file, with the file's name: `new.sql:3:7: …`, as compilers do.
    static func placed(_ message: String, in file: String) -> String {
        guard let match = message.firstMatch(of: #/^line (\d+), column (\d+): /#) else { return message }
        return "\(file):\(match.1):\(match.2): \(message[match.range.upperBound...])"
    }

    static let failure = CommandFailure(
        "the text is not valid UTF-8, or has a NUL: write such a value as CAST(x'…' AS TEXT)"
    )
}
