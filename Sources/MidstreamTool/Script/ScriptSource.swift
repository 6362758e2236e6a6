/// Where a script comes from: the command line, a file, or standard input.
enum ScriptSource {
    /// A reader of the script. Before it waits for more input, it shows the output that was written.
    ///
    /// - Parameter argument: SQL, or the path of a file; `nil` or `-` for standard input.
    static func reader(of argument: String?, _ output: Output) throws -> ScriptReader {
        if let argument, isSQL(argument) {
            var text: [UInt8]? = Array(argument.utf8)
            return ScriptReader {
                defer { text = nil }
                return text
            }
        }
        let descriptor = try open(argument)
        return ScriptReader { try piece(of: descriptor, output) }
    }

    /// Whether an argument is SQL, and not the path of a file. If there is no such file, the argument is SQL, unless it
    /// can only be a wrong path: without a space, but with a slash, or with a dot that begins no command.
    private static func isSQL(_ argument: String) -> Bool {
        if argument == "-" || Files.exists(argument) { return false }
        return argument.utf8.contains { $0 <= 0x20 } || !argument.dropFirst().contains(".") && !argument.contains("/")
    }

    /// The whole text of a script.
    ///
    /// - Throws: ``CommandFailure`` that names the place in the script of bytes that are no text.
    static func text(path: String?, _ output: Output) throws -> String {
        let descriptor = try open(path)
        var bytes: [UInt8] = []
        while case let piece = try piece(of: descriptor, output), !piece.isEmpty { bytes += piece }
        return try ScriptText.whole(bytes, in: path ?? "-")
    }

    private static func open(_ path: String?) throws -> Int32 {
        guard let path, path != "-" else { return SystemCalls.standardInput }
        guard let file = SystemCalls.openForReading(path) else {
            throw CommandFailure("cannot read \(path): \(SystemCalls.lastError)")
        }
        return file
    }

    private static func piece(of descriptor: Int32, _ output: Output) throws -> [UInt8] {
        output.flush()
        guard let bytes = SystemCalls.read(descriptor) else {
            throw CommandFailure("cannot read the script: \(SystemCalls.lastError)")
        }
        return bytes
    }
}
