import SQLiteConnection
import Testing

/// `MidstreamPreparing`, in a program of its own.
@Suite struct PreparingTests {
    @Test func whatVirtualTablesForbidRunsByPlainCalls() throws {
        let folder = TestFolder()
        let result = try Subprocess.run(BuiltTool.path(of: "PreparingCheck"), [folder.path])
        let version = Connection.libraryVersionNumber
        let count = (version >= 3_024_000 ? 3 : 0) + (version >= 3_035_000 ? 11 : 0)
        #expect(result.status == 0, "\(result.output) \(result.error)")
        #expect(result.output.hasSuffix("\(count) statements agree, 0 differ\n"), "\(result.output)")
    }
}
