/// What the command line asks for.
struct Options {
    /// The tables, in the order in which they are printed. The tables of the latency, the pace, the growth, the memory
    /// and the launch take long, and are printed only if they are asked for.
    static let tables = [
        "migration", "random", "operations", "deletion", "latency", "pace", "opening", "tables", "decode", "statements",
        "growth",
        "cipher", "memory", "launch",
    ]

    /// The rows of the table that moves.
    var rows: Int64 = 1_000_000
    /// How long each cell of the table of operations is measured, in seconds.
    var seconds = 0.3
    /// The rows of the table that moves while the memory is measured.
    var memoryRows: Int64 = 5_000_000
    /// The rows of the file that is upgraded at launch.
    var launchRows: Int64 = 5_000_000
    /// The tables to print, or parts of the names of operations to measure; empty for everything.
    var only: [String] = []
    /// The states in which operations are measured; empty for all.
    var states: [String] = []
    /// Whether only the moving table is measured, for a profiler.
    var alone = false
    /// The pipes to the profiler that watches this process; `nil` for none.
    var profiler: String?
    /// Whether the cells show processor time.
    var processorTime = false
    /// Whether operations are measured on a UNION ALL view too.
    var comparesView = false
    /// Whether the moving table is used by a connection that other code opened.
    var isGuest = false
    /// Where charts are drawn; `nil` for nowhere.
    var charts: String?
    /// Whether tables are printed in Markdown.
    var markdown = false
    /// Where the databases are made.
    var folder = "/tmp"

    static let usage = """
        usage: midstream-bench [--rows N] [--seconds S] [--memory ROWS] [--launch ROWS] [--only NAME]
                               [--state NAME] [--cpu] [--alone] [--perf PATH] [--view] [--guest]
                               [--charts PATH] [--folder PATH] [--markdown]

          --rows N       rows of the table that moves (1000000)
          --seconds S    measure each cell of the operations for about S seconds (0.3)
          --memory ROWS  only the memory that moving so many rows takes; --only memory is the same with 5000000
          --launch ROWS  only the launch with a file of so many rows to upgrade; --only launch is the same with 5000000
          --only NAME    one of migration, random, operations, deletion, latency, pace, opening, tables, decode, statements, growth,
                         cipher, memory, launch, or the operations whose name contains NAME; may be repeated
          --state NAME   only the operations with so much moved: 0, 1, 50, ledger, 99 or after; may be repeated
          --cpu          compare the operations and decoding by processor time, which other programs disturb less
          --alone        work on the moving table only, for a profiler; the ratios mean nothing
          --perf PATH    with --alone: tell "perf record" what to look at, by the pipes of Scripts/profile
          --guest        measure operations of a connection that other code opened, in the place of Database
          --view         measure operations on a UNION ALL view of the two tables too, which is moved row by row
          --charts PATH  draw the charts of latency and operations, as SVG, into that folder
          --folder PATH  make the databases there (/tmp)
          --markdown     print the tables in Markdown
        """

    /// - Throws: ``UsageError``, which says what is wrong.
    init(_ arguments: some Sequence<String>) throws {
        var rest = arguments.makeIterator()
        while let option = rest.next() {
            func value<Wanted>(_ convert: (String) -> Wanted?) throws -> Wanted {
                guard let text = rest.next(), let value = convert(text) else {
                    throw UsageError(message: "\(option) needs a value\n\n\(Self.usage)")
                }
                return value
            }
            func positive(_ text: String) -> Int64? { Int64(text).flatMap { $0 >= 1000 ? $0 : nil } }
            switch option {
            case "--rows": rows = try value(positive)
            case "--seconds": seconds = try value { Double($0).flatMap { $0 > 0 ? $0 : nil } }
            case "--memory":
                memoryRows = try value(positive)
                only.append("memory")
            case "--launch":
                launchRows = try value(positive)
                only.append("launch")
            case "--only": only.append(try value { $0 })
            case "--state": states.append(try value { $0 })
            case "--cpu": processorTime = true
            case "--alone": alone = true
            case "--perf": profiler = try value { $0 }
            case "--view": comparesView = true
            case "--guest": isGuest = true
            case "--charts": charts = try value { $0 }
            case "--folder": folder = try value { $0 }
            case "--markdown": markdown = true
            default: throw UsageError(message: "unknown option \(option)\n\n\(Self.usage)")
            }
        }
    }

    func wants(table: String) -> Bool {
        if only.isEmpty { return !["latency", "pace", "growth", "memory", "launch"].contains(table) }
        return only.contains(table) || table == "operations" && only.contains { !Self.tables.contains($0) }
    }

    func wants(state: String) -> Bool {
        states.isEmpty || states.contains { state == $0 || state == $0 + " %" || state.hasSuffix(", " + $0) }
    }

    func wants(operation: String) -> Bool {
        only.isEmpty || only.contains("operations") || only.contains { operation.contains($0) }
    }
}

/// A command line that makes no sense.
struct UsageError: Error {
    var message: String
}
