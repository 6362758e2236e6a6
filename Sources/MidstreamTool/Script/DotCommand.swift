/// A line of a script that begins with a dot.
enum DotCommand: Equatable {
    /// One step. With `rows`, a step that moves at most so many rows of each table.
    case step(rows: Int64?)
    /// Steps until nothing is left to do.
    case drain
    case status
    case help
    case quit

    /// - Throws: ``CommandFailure`` if there is no such command.
    init(_ line: String) throws(CommandFailure) {
        let words = line.split { $0 == " " || $0 == "\t" }.map(String.init)
        let name = words.first ?? ""
        switch (name, words.count) {
        case (".step", 1): self = .step(rows: nil)
        case (".step", 3) where words[1] == "rows":
            guard let rows = Int64(words[2]), rows > 0 else {
                throw CommandFailure(".step rows takes a number of rows, at least 1")
            }
            self = .step(rows: rows)
        case (".drain", 1): self = .drain
        case (".status", 1): self = .status
        case (".help", 1): self = .help
        case (".quit", 1), (".exit", 1): self = .quit
        case (".step", _): throw CommandFailure(".step takes nothing, or: rows N")
        case (".drain", _), (".status", _), (".help", _), (".quit", _), (".exit", _):
            throw CommandFailure("\(name) takes no arguments")
        default: throw CommandFailure("unknown command \(name); .help lists them")
        }
    }

    /// Whether the command writes the files, so that no transaction may be open.
    var makesSteps: Bool {
        switch self {
        case .step, .drain: true
        case .status, .help, .quit: false
        }
    }

    static let list: [(command: String, meaning: String)] = [
        (".step", "make one step of the migration"),
        (".step rows N", "move N rows of each moving table, or all that are left"),
        (".drain", "move all that is left, and retire the sources"),
        (".status", "show how far each table is"),
        (".help", "show this list"),
        (".quit", "end the script"),
    ]
}
