@testable import Midstream

extension Database {
    /// Has steps build tables of any size. Those of tests are too small to be built otherwise,
    /// and too little is written for it to be merged.
    func buildsAllTables(mostNulls: Int64 = 2000) throws {
        try engine.withStepper {
            $0.memory(Copying.State.self).leastBuilt = 1
            $0.memory(Copying.State.self).mostUnmerged = 2
            $0.memory(Copying.State.self).mostNulls = mostNulls
        }
    }
}
