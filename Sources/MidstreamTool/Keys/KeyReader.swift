internal import SQLiteConnection

/// Reads a key from the place that the command line names, into memory that is wiped.
///
/// Errors name the option and not its value, since the value may be a key that was given by mistake.
struct KeyReader {
    let file: KeyedFile
    let settings: CipherSettings
    /// Whether the key is for a new file. Then a mistyped key would lock the owner out.
    let isNew: Bool

    /// A key has fewer bytes than this.
    static let capacity = 65_536

    /// - Throws: ``CommandFailure`` if there is no key.
    func read(_ origin: KeyOrigin) throws -> EncryptionKey {
        try EncryptionKey.passphrase(capacity: Self.capacity, settings: settings) { buffer in
            switch origin {
            case .file(let path): try readFile(path, buffer)
            case .environment(let name): try readEnvironment(name, buffer)
            case .terminal: try ask(buffer)
            }
        }
    }

    private func readFile(_ path: String, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        let option = "--\(file)-key-file"
        func unreadable() -> CommandFailure {
            CommandFailure("the file of \(option) cannot be read: \(SystemCalls.lastError)")
        }
        guard let descriptor = SystemCalls.openForReading(path) else { throw unreadable() }
        defer { SystemCalls.close(descriptor) }
        var count = 0
        while count < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
            guard let more = SystemCalls.read(descriptor, into: rest) else { throw unreadable() }
            if more == 0 { break }
            count += more
        }
        guard count < buffer.count else { throw tooLong(option) }
        if count > 0, buffer[count - 1] == UInt8(ascii: "\n") { count -= 1 }
        guard count > 0 else { throw CommandFailure("the file of \(option) is empty") }
        return count
    }

    private func readEnvironment(_ name: String, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        let option = "--\(file)-key-env"
        guard let count = SystemCalls.takeEnvironment(name, into: buffer) else {
            throw CommandFailure("the environment variable that \(option) names does not exist")
        }
        guard count < buffer.count else { throw tooLong(option) }
        guard count > 0 else { throw CommandFailure("the environment variable of \(option) is empty") }
        return count
    }

    private func ask(_ buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        let option = "--\(file)-key-ask"
        func ask(_ prompt: String, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int {
            guard let count = try TerminalPrompt.ask(prompt, into: buffer) else {
                throw CommandFailure(
                    "\(option) asks on the terminal, and there is none: give --\(file)-key-file or --\(file)-key-env"
                )
            }
            guard count < buffer.count else { throw tooLong(option) }
            return count
        }
        let half = buffer.count / 2
        let (first, second) = (
            UnsafeMutableRawBufferPointer(rebasing: buffer[..<half]),
            UnsafeMutableRawBufferPointer(rebasing: buffer[half...])
        )
        let count = try ask("Key of the \(file): ", first)
        guard count > 0 else { throw CommandFailure("the key of the \(file) is empty") }
        if isNew {
            let again = try ask("The same key again: ", second)
            guard again == count, first[..<count].elementsEqual(second[..<count]) else {
                throw CommandFailure("the two keys differ: nothing has been done")
            }
        }
        return count
    }

    private func tooLong(_ option: String) -> CommandFailure {
        CommandFailure("the value that \(option) gives is too long for a key: it has \(Self.capacity) bytes or more")
    }
}
