internal import SQLiteConnection

/// Values as literals of SQL.
enum SQLLiteral {
    /// The literal of a value.
    ///
    /// Source: <https://www.sqlite.org/lang_expr.html#literal_values_constants_>.
    static func text(of value: SQLiteValue) -> String {
        switch value {
        case .null: return "NULL"
        case .integer(let integer): return "\(integer)"
        case .real(let real):
            if real.isNaN { return "NULL" }
            return real.isInfinite ? (real < 0 ? "-9e999" : "9e999") : "\(real)"
        case .text(let text):
            // SQLite ends a statement's text at a NUL.
            if text.utf8.contains(0) { return "(CAST(\(Self.text(of: .blob(Array(text.utf8)))) AS TEXT))" }
            return quoted(text)
        case .blob(let bytes):
            let digits = Array("0123456789abcdef")
            return "x'" + String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }) + "'"
        }
    }

    /// The literal of a value, for people to read. One of more than `length` scalars is cut, and ends with an ellipsis.
    static func text(of value: SQLiteValue, atMost length: Int) -> String {
        let text = Self.text(of: value)
        return text.unicodeScalars.count > length ? String(text.unicodeScalars.prefix(length)) + "…" : text
    }

    /// A text in single quotes. This works on bytes: Swift takes a quote and an accent after it for one character.
    static func quoted(_ text: String) -> String {
        let quote = UInt8(ascii: "'")
        let bytes = text.utf8.flatMap { $0 == quote ? [quote, quote] : [$0] }
        return "'" + String(decoding: bytes, as: UTF8.self) + "'"
    }
}
