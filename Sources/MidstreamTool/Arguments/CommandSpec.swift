/// What a command accepts, from which its help is written and its arguments are parsed.
struct CommandSpec: Sendable {
    var name: String
    /// One line.
    var overview: String
    /// What else there is to know.
    var discussion = ""
    var positionals: [PositionalSpec] = []
    var options: [OptionSpec] = []

    /// The options, with the one that every command has.
    var allOptions: [OptionSpec] {
        options + [.flag("help", "Show help information.")]
    }

    func option(named name: String) -> OptionSpec? {
        allOptions.first { $0.name == name }
    }
}
