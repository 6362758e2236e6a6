/// The texts that `--help` shows.
enum HelpText {
    /// The column at which descriptions begin.
    private static let indent = 26
    private static let width = 100

    /// The usage line of a command.
    static func usage(of spec: CommandSpec) -> String {
        var parts = ["midstream \(spec.name)"]
        for positional in spec.positionals {
            parts.append(positional.isRequired ? "<\(positional.name)>" : "[<\(positional.name)>]")
        }
        for option in spec.options {
            let text = option.value.map { "--\(option.name) <\($0)>" } ?? "--\(option.name)"
            parts.append(option.isRepeatable ? "[\(text) …]" : "[\(text)]")
        }
        return parts.joined(separator: " ")
    }

    static func text(of spec: CommandSpec) -> String {
        var text = "OVERVIEW: \(spec.overview)\n"
        if !spec.discussion.isEmpty { text += "\n\(spec.discussion)\n" }
        text += "\nUSAGE: \(usage(of: spec))\n"
        if !spec.positionals.isEmpty {
            text += "\nARGUMENTS:\n"
            for positional in spec.positionals { text += line("<\(positional.name)>", positional.help) }
        }
        text += "\nOPTIONS:\n"
        for option in spec.options {
            text += line("--\(option.name)" + (option.value.map { " <\($0)>" } ?? ""), option.help)
        }
        return text + line("-h, --help", "Show help information.")
    }

    /// The help of the tool itself.
    static func text(of commands: [CommandSpec]) -> String {
        var text = """
            OVERVIEW: Moves live SQLite tables from one file into another while they are used.

            USAGE: midstream <subcommand>

            OPTIONS:

            """
        text += line("--version", "Show the version.")
        text += line("-h, --help", "Show help information.")
        text += "\nSUBCOMMANDS:\n"
        for command in commands { text += line(command.name, command.overview) }
        return text + "\n  See 'midstream <subcommand> --help' for detailed help.\n"
    }

    /// A name and its meaning, wrapped.
    private static func line(_ name: String, _ help: String) -> String {
        var lines = ["  " + name]
        if name.count + 4 > indent { lines.append("") }
        for word in help.split(separator: " ") {
            if lines[lines.count - 1].count + 1 + word.count > width { lines.append("") }
            let last = lines[lines.count - 1]
            let isNew = last.count < indent
            lines[lines.count - 1] =
                isNew ? last + String(repeating: " ", count: indent - last.count) + word : last + " " + word
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
