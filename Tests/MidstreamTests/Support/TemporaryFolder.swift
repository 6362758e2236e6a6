#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A folder that is removed with the object.
final class TemporaryFolder: Sendable {
    let path: String

    init(under parent: String = Files.folder) {
        var template = Array((parent + "/midstream-XXXXXX").utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    deinit {
        if let folder = opendir(path) {
            while let entry = readdir(folder) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                unlink(path + "/" + name)
            }
            closedir(folder)
        }
        rmdir(path)
    }

    func file(_ name: String) -> String { path + "/" + name }
}
