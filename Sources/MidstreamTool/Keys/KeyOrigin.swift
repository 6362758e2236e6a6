/// Which of a command's files a key belongs to.
enum KeyedFile: String, Sendable {
    case source
    case target
}

/// Where a key is read. It is never an argument of the process: those are for all to see.
enum KeyOrigin: Equatable {
    /// The file of that path.
    case file(String)
    /// The environment variable of that name.
    case environment(String)
    /// The terminal, where it is asked for.
    case terminal
}
