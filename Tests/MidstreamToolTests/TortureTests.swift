import Testing

/// `make torture` for a few seconds.
@Suite struct TortureTests {
    @Test func processesThatAreKilledLoseNothingAndReadEachRowOnce() throws {
        try torture(["--seconds", "10", "--seed", "1"])
    }

    /// A round in which processes write a small table hundreds of times a second while its migration is cancelled.
    @Test func aTableReturnsThoughOthersWriteItAllTheWhile() throws {
        try torture(["--seconds", "1", "--seed", "151001", "--round", "96"])
    }

    private func torture(_ arguments: [String]) throws {
        let result = try Subprocess.run(BuiltTool.path(of: "MidstreamTorture"), arguments)
        print(result.output)
        #expect(result.status == 0, "\(result.output) \(result.error)")
    }
}
