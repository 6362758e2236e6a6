@testable import Midstream

extension Database {
    /// Makes steps build tables of any size. Otherwise the tables of tests would be too small to be built, and too
    /// little would be written for it to be merged.
    func buildsAllTables(mostNulls: Int64 = 2000) throws {
        try engine.withStepper {
            $0.memory(Copying.State.self).leastBuilt = 1
            $0.memory(Copying.State.self).mostUnmerged = 2
            $0.memory(Copying.State.self).mostNulls = mostNulls
        }
    }
}
