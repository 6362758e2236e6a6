/// How SQLite writes and compares names.
public enum SQLIdentifier {
    /// The name that a token stands for: without the quotes around it, and with one quote for each doubled one inside.
    /// A bare word stays as it is.
    ///
    ///     SQLIdentifier.unquoted(#""a""b""#)  // a"b
    ///     SQLIdentifier.unquoted("[a b]")     // a b
    public static func unquoted(_ token: String) -> String {
        let bytes = Array(token.utf8)
        return unquoted(bytes[...])
    }

    /// A name in double quotes, which can stand wherever SQLite expects a name.
    ///
    ///     SQLIdentifier.quoted(#"a"b"#)  // "a""b"
    public static func quoted(_ name: String) -> String {
        var bytes: [UInt8] = [UInt8(ascii: "\"")]
        for byte in name.utf8 {
            if byte == UInt8(ascii: "\"") { bytes.append(byte) }
            bytes.append(byte)
        }
        bytes.append(UInt8(ascii: "\""))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether two names are the same to SQLite, which ignores only the case of ASCII letters.
    ///
    /// Swift's `==` differs: to Swift, a letter followed by a combining accent equals the accented letter.
    public static func equal(_ a: String, _ b: String) -> Bool {
        let a = a.utf8
        let b = b.utf8
        return a.count == b.count && zip(a, b).allSatisfy { ByteClass.lowercased($0) == ByteClass.lowercased($1) }
    }

    /// Whether a name begins with another name. The case of ASCII letters does not count.
    public static func begins(_ name: String, with beginning: String) -> Bool {
        name.utf8.starts(with: beginning.utf8) { ByteClass.lowercased($0) == ByteClass.lowercased($1) }
    }

    /// A name in ASCII lower case; other letters stay. Names that are equal to SQLite give the same key.
    public static func lowercased(_ name: String) -> String {
        String(decoding: name.utf8.map(ByteClass.lowercased), as: UTF8.self)
    }

    static func unquoted(_ token: ArraySlice<UInt8>) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(token.count)
        forEachByte(of: token) { result.append($0) }
        return String(decoding: result, as: UTF8.self)
    }

    /// Calls `body` with each byte of the name that a token stands for.
    @inline(__always)
    static func forEachByte(of token: ArraySlice<UInt8>, _ body: (UInt8) -> Void) {
        guard let first = token.first else { return }
        let close: UInt8
        switch first {
        case UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "`"): close = first
        case UInt8(ascii: "["): close = UInt8(ascii: "]")
        default:
            for byte in token { body(byte) }
            return
        }
        var offset = token.startIndex + 1
        while offset < token.endIndex {
            let byte = token[offset]
            if byte == close {
                guard offset + 1 < token.endIndex, token[offset + 1] == close else { return }
                offset += 1
            }
            body(byte)
            offset += 1
        }
    }
}
