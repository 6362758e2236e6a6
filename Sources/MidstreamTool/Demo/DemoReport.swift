/// The final report of the demonstration.
struct DemoReport {
    var phases: [Demo.Phase]
    var result: DemoOracle.Result
    /// The number of rows that were compared at the end.
    var finalRows: Int64
    /// How often tables were drained for a statement.
    var drained: Int

    func write(to output: Output) {
        output.line("")
        output.line("                    reads       p50       p99     writes       p50       p99")
        for phase in phases {
            output.line(
                Self.left(phase.name, 10) + Self.columns(phase.latencies.reads) + "  "
                    + Self.columns(phase.latencies.writes)
            )
        }
        output.line("")
        output.line(
            "Compared with plain SQLite: \(NumberText.count(Int64(result.reads), "read")) of "
                + "\(NumberText.count(Int64(result.rows), "row")), \(NumberText.count(Int64(result.writes), "transaction")) "
                + "that wrote, and in the end all \(NumberText.count(finalRows, "row"))."
        )
        if drained > 0 { output.line("Tables drained for a statement: \(drained)") }
        for example in result.examples { output.line("  " + example) }
        output.line("\(NumberText.count(Int64(result.differences), "difference"))")
    }

    private static func columns(_ values: [Int64]) -> String {
        right(NumberText.grouped(Int64(values.count)), 15).suffix(15)
            + right(milliseconds(Latencies.percentile(0.5, of: values)), 10)
            + right(milliseconds(Latencies.percentile(0.99, of: values)), 10)
    }

    private static func milliseconds(_ value: Double) -> String { NumberText.fixed(value, 2) + " ms" }

    private static func left(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func right(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}
