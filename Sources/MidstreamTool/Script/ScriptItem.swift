/// One piece of a script.
enum ScriptItem: Equatable {
    /// A statement without its semicolon, and the line that it begins on.
    case statement(String, line: Int)
    /// The same of a statement that has bytes which are no text; they are replaced.
    case unreadable(String, line: Int)
    /// A line that begins with a dot.
    case command(String, line: Int)
}
