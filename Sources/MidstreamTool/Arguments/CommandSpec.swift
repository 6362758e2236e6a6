/// What a command accepts. Its help is written from this, and its arguments are parsed by it.
struct CommandSpec: Sendable {
    var name: String
    /// What the command does, in one line.
    var overview: String
    /// What else a user must know.
    var discussion = ""
    var positionals: [PositionalSpec] = []
    var options: [OptionSpec] = []

    /// The options, including the one that every command has.
    var allOptions: [OptionSpec] {
        options + [.flag("help", "Show help information.")]
    }

    func option(named name: String) -> OptionSpec? {
        allOptions.first { $0.name == name }
    }
}
