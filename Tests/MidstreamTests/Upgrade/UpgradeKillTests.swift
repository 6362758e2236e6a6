import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Processes that die at every write of an upgrade, and of the moves that it begins. See ``KillTests`` for how many are tried.
@Suite struct UpgradeKillTests {
    private static func operations(_ version: Int, _ folder: String) async throws -> Int {
        try UpgradeWorkload(folder: folder, version: version).prepare()
        await #expect(processExitsWith: .success) { [folder, version] in
            try KillingVFS.register()
            KillingVFS.disarm()
            try UpgradeWorkload(folder: folder, version: version).run()
            for _ in 0..<KillingVFS.operations { Files.mark(folder + "/count") }
        }
        let count = Files.size(folder + "/count")
        unlink(folder + "/count")
        unlink(folder + "/committed")
        return count
    }

    /// Upgrades, and goes on working, in a process that dies at a given point.
    private static func die(_ version: Int, _ folder: String, at point: Int, _ manner: KillingVFS.Manner) async {
        await #expect(processExitsWith: .signal(SIGKILL)) { [version, folder, point, manner] in
            do {
                try KillingVFS.register()
                KillingVFS.kill(at: point, manner: manner, seed: UInt64(point))
                try UpgradeWorkload(folder: folder, version: version).run()
                KillingVFS.killNow()
            } catch {
                print("version \(version), \(manner), point \(point): \(error)")
                throw error
            }
        }
    }

    @Test(arguments: 0..<UpgradeWorkload.newest) func aKillLeavesAWholeStepOrNone(_ version: Int) async throws {
        let folder = TemporaryFolder()
        let path = folder.path
        let workload = UpgradeWorkload(folder: path, version: version)
        let expected = try workload.expectations()
        let count = try await Self.operations(version, path)
        #expect(count > 20)
        for manner in KillTests.manners {
            var tried = 0
            for point in KillTests.points(count, about: Sample.size(8), of: "version \(version), \(manner)") {
                try workload.prepare()
                unlink(workload.committed)
                await Self.die(version, path, at: point, manner)
                let comment: Comment = "version \(version), \(manner), point \(point) of \(count)"
                do {
                    try workload.check(expected, losesLast: manner.losesPower, comment)
                } catch {
                    Issue.record("\(comment): \(error)")
                }
                tried += 1
            }
            print(
                "upgrade: version \(version), \(manner): \(tried) of \(count), MIDSTREAM_CRASH_SEED=\(KillTests.seed)"
            )
        }
    }
}
