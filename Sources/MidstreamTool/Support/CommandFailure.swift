internal import Midstream
internal import SQLiteConnection

/// Why a command cannot do what it was asked.
struct CommandFailure: Error, Equatable {
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// Runs `body`; an error of SQLite that it throws is told together with the file's path.
    static func naming<Result>(_ path: String, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError {
            // SQLite says that it cannot open or read it, and not why.
            if Files.isDirectory(path) { throw CommandFailure("\(path) is a directory: name a database file") }
            throw CommandFailure(error.message.contains(path) ? error.message : "\(path): \(error.message)")
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
    // Of a shell nobody calls the library.
    let words = error.message.replacing("SchemaOptions.columns", with: "--map")
    guard let cause = error.cause else { return words }
    // Keys are data, which errors of the library do not show. Who runs the command asks for them.
    if let keys = error.unreadableKeys { return "\(words): \(keys) (\(cause.message))" }
    guard cause.code == .notADatabase else { return "\(words) (\(cause.message))" }
    // The message has the cause's in it, and says by which call a key is given.
    return error.message.replacing(
        ", by the source of addMigration or by DatabaseConfiguration.sourceKey",
        with: ", by --source-key-file, --source-key-env or --source-key-ask"
    )
}
