import SQLiteC
import SQLiteConnection

/// How scripts write the values of a result.
enum LogicValue {
    /// The current row's values, each as its column's letter says.
    static func row(_ statement: Statement, _ types: [UInt8]) -> [String] {
        types.enumerated().map { index, type in
            if statement.isNull(at: index) { return "NULL" }
            switch type {
            // The C interface's `int`, as upstream has it.
            case UInt8(ascii: "I"): return String(Int32(truncatingIfNeeded: statement.int64(at: index)))
            case UInt8(ascii: "R"): return real(statement.double(at: index))
            default: return statement.withBytes(at: index) { text($0) }
            }
        }
    }

    /// Three decimals, by SQLite's own rounding.
    static func real(_ value: Double) -> String {
        var buffer = [CChar](repeating: 0, count: 400)
        let count = Int32(buffer.count)
        withVaList([value]) { _ = sqlite3_vsnprintf(count, &buffer, "%.3f", $0) }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The bytes up to a NUL, with `@` for what cannot be printed.
    static func text(_ bytes: some Sequence<UInt8>) -> String {
        let shown = bytes.prefix { $0 != 0 }.map { 0x20...0x7e ~= $0 ? $0 : UInt8(ascii: "@") }
        return shown.isEmpty ? "(empty)" : String(decoding: shown, as: UTF8.self)
    }
}
