/// `midstream demo`: moves tables under an application, and compares everything with plain SQLite.
struct DemoCommand: Command {
    static let spec = CommandSpec(
        name: "demo",
        overview: "Move tables under a running application, and compare each result with plain SQLite.",
        discussion: """
            The data is the package index of this machine (apt-cache dumpavail); without one, or with --rows, a chat. It
            works in a temporary folder, and exits with 1 if anything differs.
            """,
        options: [
            .option("rows", "number", "Make a chat of so many messages. Without a package index: 200000."),
            .option("keep", "folder", "Work in this folder, and leave the files there."),
        ]
    )

    let rows: Int64?
    let folder: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        if let text = arguments.value("rows") {
            guard let number = Int64(text), (1...100_000_000).contains(number) else {
                throw UsageError("--rows takes a number from 1 to 100000000", command: Self.spec.name)
            }
            rows = number
        } else {
            rows = nil
        }
        folder = arguments.value("keep")
    }

    func run(_ output: Output) throws -> ExitCode {
        let folder = try DemoFolder(kept: folder)
        defer { folder.remove() }
        let signals = SignalWatch()
        defer { signals.stop() }
        let clock = ContinuousClock()
        let start = clock.now
        let scenario = try DemoData.make(in: folder, rows: rows)
        let size = NumberText.fixed(Double(DemoFolder.size(of: folder.old)) / 1e6, 1)
        output.line("old.db: \(scenario.summary); \(size) MB, made in \(NumberText.seconds(clock.now - start))")
        return try Demo(scenario, folder, output, signals).run()
    }
}
