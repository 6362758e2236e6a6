/// What a stage of the migration remembers from one step to the next.
///
/// The stepper tells it what has become of files and tables, and calls no stage itself.
protocol StageMemory: AnyObject {
    /// - Parameter pageSize: The size of the target's pages, in bytes.
    init(pageSize: Int64)
    /// What is known of a table's move may be true no longer.
    func forget(_ id: Int64)
    /// Tables may have other shapes.
    func forgetShapes()
    /// A source's file was detached.
    func forgetSource(_ migration: MigrationRecord)
    /// Another file was found in a source's place.
    func noteReplacedSource()
}

extension StageMemory {
    func forget(_ id: Int64) {}
    func forgetShapes() {}
    func forgetSource(_ migration: MigrationRecord) {}
    func noteReplacedSource() {}
}
