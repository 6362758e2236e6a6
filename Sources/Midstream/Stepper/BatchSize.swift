/// The number of rows that a batch looks at, so that several fit into a step.
struct BatchSize {
    /// Few at first, since each row may have megabytes.
    private(set) var rows: Int64 = 16

    /// How long a batch should take.
    var wanted = Duration.milliseconds(1)
    var least: Int64 = 1

    mutating func adapt(took time: Duration) {
        if time > wanted * 2 {
            shrink()
        } else if time < wanted {
            rows = min(rows + (time < wanted / 4 ? rows : rows / 4 + 1), 100_000)
        }
    }

    mutating func shrink() {
        rows = max(least, rows / 2)
    }
}
