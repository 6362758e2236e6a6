/// One piece of a script.
enum ScriptItem: Equatable {
    /// A statement without its semicolon, and the line that it begins on.
    case statement(String, line: Int)
    /// A statement with bytes that are no text, and the line that it begins on. The bytes are replaced.
    case unreadable(String, line: Int)
    /// A line that begins with a dot.
    case command(String, line: Int)
}
