/// A command line that cannot be understood.
///
/// The message names options, and never a value, since values may be secrets.
struct UsageError: Error, Equatable {
    var message: String
    /// The command whose help explains the error; `nil` if no command is known yet.
    var command: String?

    init(_ message: String, command: String? = nil) {
        self.message = message
        self.command = command
    }
}
