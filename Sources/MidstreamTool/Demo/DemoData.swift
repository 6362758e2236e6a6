internal import SQLiteConnection

/// The data of the demonstration.
enum DemoData {
    private static let defaultRows: Int64 = 200_000

    /// Makes the file whose tables will move, and a copy for plain SQLite.
    ///
    /// - Parameter rows: The number of messages of a chat; `nil` for the machine's package index, if there is one.
    static func make(in folder: DemoFolder, rows: Int64?) throws -> any DemoScenario {
        let connection = try Connection(path: folder.old)
        try connection.execute("PRAGMA synchronous = OFF")
        let index = rows == nil ? PackageIndex.read() : PackageIndex()
        let scenario: any DemoScenario
        if index.packages.isEmpty {
            scenario = try ChatScenario(messages: rows ?? defaultRows, into: connection)
        } else {
            scenario = try PackageScenario(index, into: connection)
        }
        try connection.execute(script: DemoClock.create + ";" + DemoClock.start)
        connection.close()
        try folder.copy(folder.old, to: folder.plain)
        return scenario
    }
}
