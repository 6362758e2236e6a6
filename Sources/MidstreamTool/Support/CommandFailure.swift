internal import Midstream
internal import SQLiteConnection

/// Why a command cannot do what it was asked to do.
struct CommandFailure: Error, Equatable {
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// Runs `body`. If it throws an error of SQLite, the path of the file is added to the error.
    ///
    /// - Parameter other: Another file that the error may be about. If the error names that file already, no path is
    ///   added.
    static func naming<Result>(_ path: String, or other: String? = nil, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError {
            // SQLite says that it cannot open or read a directory, but not why.
            if Files.isDirectory(path) { throw CommandFailure("\(path) is a directory: name a database file") }
            // An error of a full disk already says which file is on the disk.
            let isNamed =
                error.message.hasPrefix("the disk of ")
                || [path, other].contains { $0.map(error.message.contains) ?? false }
            throw CommandFailure(isNamed ? error.message : "\(path): \(error.message)")
        }
    }
}

/// An error in words. The text of statements is left out, since literals in it may be secrets.
func message(of error: any Error) -> String {
    switch error {
    case let error as CommandFailure: error.message
    case let error as UsageError: error.message
    case let error as SQLiteError: error.message
    case let error as MigrationError: message(ofMigration: error)
    default: "\(error)"
    }
}

private func message(ofMigration error: MigrationError) -> String {
    let words = CommandWords.message(error.message)
    guard let cause = error.cause, !words.contains(cause.message) else { return words }
    return "\(words) (\(cause.message))"
}
