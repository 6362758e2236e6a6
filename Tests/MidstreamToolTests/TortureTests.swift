import Testing

/// `make torture` for a few seconds.
@Suite struct TortureTests {
    @Test func processesThatAreKilledLoseNothingAndReadEachRowOnce() throws {
        let output = try torture(["--seconds", "10", "--seed", "1"])
        #expect(!output.contains(" 0 kills,"), "\(output)")
    }

    /// A round in which processes write a small table hundreds of times a second while its migration is cancelled.
    @Test func aTableReturnsThoughOthersWriteItAllTheWhile() throws {
        // The migration may be over before a process cancels it.
        let hasReturned = try (0..<10).contains { _ in
            try !torture(["--seconds", "0", "--seed", "151001", "--round", "96"]).contains(" 0 returns,")
        }
        #expect(hasReturned)
    }

    private func torture(_ arguments: [String]) throws -> String {
        let result = try Subprocess.run(BuiltTool.path(of: "MidstreamTorture"), arguments)
        print(result.output)
        #expect(result.status == 0, "\(result.output) \(result.error)")
        return result.output
    }
}
