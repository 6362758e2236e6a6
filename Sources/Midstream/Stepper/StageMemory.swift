/// What a stage of the migration remembers from one step to the next.
///
/// The stepper tells the memory what has become of files and tables, and calls no stage itself.
protocol StageMemory: AnyObject {
    /// - Parameter pageSize: The size of the target's pages, in bytes.
    init(pageSize: Int64)
    /// Forgets what is known of a table's move, since that may no longer be true.
    func forget(_ id: Int64)
    /// Forgets the shapes of tables, since tables may have other shapes now.
    func forgetShapes()
    /// Called when a source's file was detached.
    func forgetSource(_ migration: MigrationRecord)
    /// Called when another file was found in a source's place.
    func noteReplacedSource()
}

extension StageMemory {
    func forget(_ id: Int64) {}
    func forgetShapes() {}
    func forgetSource(_ migration: MigrationRecord) {}
    func noteReplacedSource() {}
}
