/// Where a script comes from: a file, or standard input.
enum ScriptSource {
    /// A reader of it. Before it waits for more, what was written is shown.
    ///
    /// - Parameter path: `nil` or `-` for standard input.
    static func reader(path: String?, _ output: Output) throws -> ScriptReader {
        let descriptor: Int32
        if let path, path != "-" {
            guard let file = SystemCalls.openForReading(path) else {
                throw CommandFailure("cannot read \(path): \(SystemCalls.lastError)")
            }
            descriptor = file
        } else {
            descriptor = SystemCalls.standardInput
        }
        return ScriptReader {
            output.flush()
            guard let bytes = SystemCalls.read(descriptor) else {
                throw CommandFailure("cannot read the script: \(SystemCalls.lastError)")
            }
            return bytes
        }
    }
}
