internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Measures what the command line asks for.
///
/// - Returns: The exit code.
func benchmark(_ arguments: [String]) throws -> Int32 {
    if arguments.first == MigrationRun.argument {
        try MigrationRun.perform(Array(arguments.dropFirst()))
        return 0
    }
    if arguments.first == Messages.argument {
        try Messages.perform(Array(arguments.dropFirst()))
        return 0
    }
    let options = try Options(arguments)
    let report = Report(markdown: options.markdown)
    report.section(
        "midstream-bench" + arguments.map { " " + $0 }.joined(),
        "SQLite \(Machine.sqliteVersion), \(Machine.cores) cores, \(Machine.processor)"
    )
    var isGood = true
    if options.wants(table: "migration") { try migrationBenchmark(options, report) }
    if options.wants(table: "random") { try RandomKeysBenchmark.run(options, report) }
    if options.wants(table: "operations") { try OperationsBenchmark.run(options, report) }
    if options.wants(table: "deletion") { try deletionBenchmark(options, report) }
    if options.wants(table: "latency") { try LatencyBenchmark.run(options, report) }
    if options.wants(table: "pace"), try !LatencyBenchmark.runWhole(options, report) { isGood = false }
    if options.wants(table: "opening") { try openingBenchmark(options, report) }
    if options.wants(table: "tables"), try !TablesBenchmark.run(options, report) { isGood = false }
    if options.wants(table: "decode") { try decodeBenchmark(options, report) }
    if options.wants(table: "statements") { try statementsBenchmark(options, report) }
    if options.wants(table: "growth") { try GrowthBenchmark.run(options, report) }
    if options.wants(table: "cipher") { try cipherBenchmark(options, report) }
    if options.wants(table: "memory"), try !memoryBenchmark(options, report) { isGood = false }
    if options.wants(table: "launch"), try !LaunchBenchmark.run(options, report) { isGood = false }
    return isGood ? 0 : 1
}

do {
    exit(try benchmark(Array(CommandLine.arguments.dropFirst())))
} catch let error as UsageError {
    Report.note(error.message)
    exit(2)
} catch {
    Report.note("\(error)")
    exit(1)
}
