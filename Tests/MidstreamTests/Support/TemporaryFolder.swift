#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A folder that is removed, with all that is in it, when the object goes.
final class TemporaryFolder: Sendable {
    let path: String

    init(under parent: String = Files.folder) {
        var template = Array((parent + "/midstream-XXXXXX").utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    deinit { Files.remove(path) }

    func file(_ name: String) -> String { path + "/" + name }
}
