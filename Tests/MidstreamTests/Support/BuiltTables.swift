@testable import Midstream

extension Database {
    /// Has steps build tables of any size. Those of tests are too small to be built otherwise.
    func buildsAllTables() throws {
        try engine.withStepper { $0.copying.leastBuilt = 1 }
    }
}
