/// A command's arguments, sorted by option.
struct ParsedArguments: Equatable {
    private(set) var flags: Set<String> = []
    private(set) var values: [String: [String]] = [:]
    private(set) var positionals: [String] = []

    func has(_ flag: String) -> Bool { flags.contains(flag) }
    /// The last value that was given.
    func value(_ option: String) -> String? { values[option]?.last }
    func all(_ option: String) -> [String] { values[option] ?? [] }

    /// Parses the arguments after the command's name.
    ///
    /// The conventions are those of swift-argument-parser: `--option value` and `--option=value`, values that begin
    /// with a dash only in the second form, options and arguments in any order, and only arguments after `--`.
    init(_ arguments: [String], for spec: CommandSpec) throws(UsageError) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                positionals += rest
                break
            }
            guard argument.hasPrefix("-"), argument != "-" else {
                positionals.append(argument)
                continue
            }
            let (name, attached) = Self.split(argument)
            guard let option = spec.option(named: name) else {
                throw UsageError("unknown option \(Self.shown(argument))", command: spec.name)
            }
            if option.value == nil {
                guard attached == nil else {
                    throw UsageError("--\(name) takes no value", command: spec.name)
                }
                flags.insert(name)
            } else if let attached {
                values[name, default: []].append(attached)
            } else if let next = rest.first, !next.hasPrefix("-") || next == "-" {
                values[name, default: []].append(next)
                rest.removeFirst()
            } else {
                throw UsageError(
                    "--\(name) needs a value; write one that begins with a dash as --\(name)=…",
                    command: spec.name
                )
            }
        }
        if flags.contains("help") { return }
        try checkPositionals(spec)
    }

    private func checkPositionals(_ spec: CommandSpec) throws(UsageError) {
        if positionals.count > spec.positionals.count {
            let most = spec.positionals.count
            let surplus = positionals.count - most
            throw UsageError(
                "\(surplus) \(surplus == 1 ? "argument" : "arguments") too many"
                    + (most == 0 ? ": midstream \(spec.name) takes options only" : ""),
                command: spec.name
            )
        }
        for missing in spec.positionals.dropFirst(positionals.count) where missing.isRequired {
            throw UsageError("missing argument <\(missing.name)>", command: spec.name)
        }
    }

    /// The name and the value of `--name=value`.
    private static func split(_ argument: String) -> (name: String, value: String?) {
        if argument == "-h" { return ("help", nil) }
        guard argument.hasPrefix("--") else { return (argument, nil) }
        let body = argument.dropFirst(2)
        guard let equals = body.firstIndex(of: "=") else { return (String(body), nil) }
        return (String(body[..<equals]), String(body[body.index(after: equals)...]))
    }

    /// The option as written, without a value that may be attached to it.
    private static func shown(_ argument: String) -> String {
        if argument.hasPrefix("--") { return String(argument.prefix { $0 != "=" }) }
        return String(argument.prefix(2))
    }
}
