internal import Midstream

/// The options of `migrate`, `encrypt` and `decrypt` that say how a migration runs.
struct RunArguments {
    /// The time that a step may take.
    var budget: Duration
    var pace: MigrationPace?
    var isJSON: Bool

    static let options: [OptionSpec] = [
        .option("budget", "duration", "The time that one step may take, such as 10ms, which is the default."),
        .option(
            "pace",
            "pace",
            "fast, steady or gentle: pause between steps, so that others have their turn. Default: no pause."
        ),
        .flag("json", "Print JSON objects, one to a line; the last is the summary."),
    ]

    init(_ parsed: ParsedArguments, command: String) throws(UsageError) {
        switch parsed.value("pace") {
        case nil: pace = nil
        case "fast": pace = .fast
        case "steady": pace = .steady
        case "gentle": pace = .gentle
        default: throw UsageError("--pace is fast, steady or gentle", command: command)
        }
        guard let budget = DurationText.parse(parsed.value("budget") ?? "10ms") else {
            throw UsageError("--budget takes a duration such as 500us, 10ms or 1s", command: command)
        }
        self.budget = budget
        isJSON = parsed.has("json")
    }
}
