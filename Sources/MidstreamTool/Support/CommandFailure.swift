internal import Midstream
internal import SQLiteConnection

/// Why a command cannot do what it was asked.
struct CommandFailure: Error, Equatable {
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// Runs `body`; an error of SQLite that it throws is told together with the file's path.
    ///
    /// - Parameter other: Another file that it may be about, which is named already then.
    static func naming<Result>(_ path: String, or other: String? = nil, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError {
            // SQLite says that it cannot open or read it, and not why.
            if Files.isDirectory(path) { throw CommandFailure("\(path) is a directory: name a database file") }
            // Of a full disk it is told which file is on it.
            let isNamed =
                error.message.hasPrefix("the disk of ")
                || [path, other].contains { $0.map(error.message.contains) ?? false }
            throw CommandFailure(isNamed ? error.message : "\(path): \(error.message)")
        }
    }
}

/// An error in words. The text of statements stays out, since literals in it may be secrets.
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
