/// Which of a command's files a key belongs to.
enum KeyedFile: String, Sendable {
    case source
    case target
}

/// Where a key is read from. A key is never an argument of the process, since arguments are visible to all.
enum KeyOrigin: Equatable {
    /// The file at this path.
    case file(String)
    /// The environment variable of this name.
    case environment(String)
    /// The terminal, on which the key is asked for.
    case terminal
}
