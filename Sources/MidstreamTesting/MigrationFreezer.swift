public import Midstream

/// Moves a share of each moving table's rows and then stops, so that a test runs with rows on both sides.
///
///     try database.addMigration(source: .file("old.db")) { table in table.sourceTable = table.name }
///     for percent in [0, 30, 100] {
///         try MigrationFreezer(database).move(toPercent: percent)
///         try checkWhatMyAppReadsAndWrites(database)
///     }
///
/// At 0 no row has moved. At 100 all rows have moved, and the tables still count as moving. Auto migration must not
/// run. Statements of the application go on promoting the rows that they need.
public struct MigrationFreezer {
    private let database: Database

    /// Makes a freezer for a database whose migrations have been added.
    public init(_ database: Database) {
        self.database = database
    }

    /// Moves rows until this percentage of each table's rows has moved, rounded down. Rows do not move back.
    ///
    /// - Returns: How far each table is.
    /// - Throws: ``Midstream/MigrationError`` if a row cannot be moved.
    /// - Complexity: O(n · log n) over the rows that move.
    @discardableResult
    public func move(toPercent percent: Int) throws -> MigrationProgress {
        var progress = try database.stepMigration(rows: 0)
        for table in progress.tables where table.phase == .copying {
            let wanted = (table.totalRows ?? 0) * Int64(max(0, min(100, percent))) / 100
            guard wanted > table.movedRows else { continue }
            progress = try database.stepMigration(rows: wanted - table.movedRows, of: table.name)
        }
        return progress
    }
}
