/// Where a script comes from: a file, or standard input.
enum ScriptSource {
    /// A reader of it. Before it waits for more, what was written is shown.
    ///
    /// - Parameter path: `nil` or `-` for standard input.
    static func reader(path: String?, _ output: Output) throws -> ScriptReader {
        let descriptor = try open(path)
        return ScriptReader { try piece(of: descriptor, output) }
    }

    /// All of it.
    static func text(path: String?, _ output: Output) throws -> String {
        let descriptor = try open(path)
        var bytes: [UInt8] = []
        while case let piece = try piece(of: descriptor, output), !piece.isEmpty { bytes += piece }
        return try ScriptText.whole(bytes)
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
