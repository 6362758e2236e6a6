import Testing

/// `make torture` for a few seconds.
@Suite struct TortureTests {
    @Test func processesThatAreKilledLoseNothingAndReadEachRowOnce() throws {
        let result = try Subprocess.run(BuiltTool.path(of: "MidstreamTorture"), ["--seconds", "10", "--seed", "1"])
        print(result.output)
        #expect(result.status == 0, "\(result.output) \(result.error)")
    }
}
