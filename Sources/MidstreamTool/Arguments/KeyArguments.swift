internal import SQLiteConnection

/// The options that say where the keys of a command's files are read from, and how the files are encrypted.
struct KeyArguments: Equatable {
    /// The options of one file.
    struct Choice: Equatable {
        var origin: KeyOrigin
        var settings: CipherSettings
    }

    /// `nil` for a file that is not encrypted.
    var source: Choice?
    var target: Choice?

    static func options(_ files: KeyedFile...) -> [OptionSpec] {
        files.flatMap { file -> [OptionSpec] in
            [
                .option("\(file)-key-file", "file", "A file that holds the \(file)'s passphrase, or raw key as x'…'."),
                .option("\(file)-key-env", "name", "An environment variable that holds it."),
                .flag("\(file)-key-ask", "Ask for it on the terminal."),
                .option(
                    "\(file)-cipher",
                    "name=value,…",
                    "How the \(file) is encrypted, where that is not the library's default: \(CipherText.names)."
                ),
            ]
        }
    }

    init(_ parsed: ParsedArguments, command: String) throws(UsageError) {
        source = try Self.choice(.source, parsed, command)
        target = try Self.choice(.target, parsed, command)
    }

    private static func choice(
        _ file: KeyedFile,
        _ parsed: ParsedArguments,
        _ command: String
    ) throws(UsageError) -> Choice? {
        var origins: [KeyOrigin] = []
        for (option, origin) in [
            ("\(file)-key-file", KeyOrigin.file), ("\(file)-key-env", KeyOrigin.environment),
        ] {
            guard let value = parsed.value(option) else { continue }
            guard !value.isEmpty else { throw UsageError("the value of --\(option) is empty", command: command) }
            origins.append(origin(value))
        }
        if parsed.has("\(file)-key-ask") { origins.append(.terminal) }
        guard origins.count <= 1 else {
            throw UsageError(
                "the \(file) has one key: give one of --\(file)-key-file, --\(file)-key-env and --\(file)-key-ask",
                command: command
            )
        }
        let option = "--\(file)-cipher"
        var settings = CipherSettings()
        if let text = parsed.value("\(file)-cipher") {
            do {
                settings = try CipherText.parse(text)
            } catch {
                throw UsageError("\(option): \(error.message)", command: command)
            }
            if origins.isEmpty {
                throw UsageError("\(option) says how a key is used: give the \(file)'s key too", command: command)
            }
        }
        return origins.first.map { Choice(origin: $0, settings: settings) }
    }

    /// Reads the keys. Call this before anything else is done.
    ///
    /// - Parameter targetPath: The target's path. If the target does not exist and its key is asked for on the
    ///   terminal, the key is asked for twice.
    /// - Throws: ``CommandFailure``, or ``SQLiteError`` if the library does not encrypt.
    func read(targetPath: String) throws -> FileKeys {
        var keys = FileKeys()
        guard source != nil || target != nil else { return keys }
        try Connection.requireCodec()
        Connection.silenceCipherLog()
        if let source {
            keys.source = try KeyReader(file: .source, settings: source.settings, isNew: false).read(source.origin)
        }
        if let target {
            if target.origin != .terminal, target.origin == source?.origin {
                // A key that was read once may be gone from its place.
                keys.target = keys.source
                keys.target?.settings = target.settings
            } else {
                let isNew = !Files.exists(targetPath)
                keys.target = try KeyReader(file: .target, settings: target.settings, isNew: isNew).read(target.origin)
            }
        }
        return keys
    }
}
