/// An option or a flag of a command.
struct OptionSpec: Sendable {
    /// The long name, without the dashes.
    var name: String
    /// What help calls the value; `nil` for a flag.
    var value: String?
    /// Whether each use adds a value. Otherwise the last value counts.
    var isRepeatable = false
    var help: String

    static func flag(_ name: String, _ help: String) -> OptionSpec {
        OptionSpec(name: name, value: nil, help: help)
    }

    static func option(_ name: String, _ value: String, _ help: String, isRepeatable: Bool = false) -> OptionSpec {
        OptionSpec(name: name, value: value, isRepeatable: isRepeatable, help: help)
    }
}

/// An argument that is identified by its place.
struct PositionalSpec: Sendable {
    var name: String
    var isRequired: Bool
    var help: String
}
