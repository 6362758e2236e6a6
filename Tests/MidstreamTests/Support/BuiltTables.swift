@testable import Midstream

extension Database {
    /// Has steps build tables of any size. Those of tests are too small to be built otherwise,
    /// and too little is written for it to be merged.
    func buildsAllTables(mostNulls: Int64 = 2000) throws {
        try engine.withStepper {
            $0.copying.leastBuilt = 1
            $0.copying.mostUnmerged = 2
            $0.copying.mostNulls = mostNulls
        }
    }
}
