#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A folder that is removed with the object.
final class TemporaryFolder: Sendable {
    let path: String

    init(under parent: String = "/tmp") {
        var template = Array((parent + "/midstream-XXXXXX").utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    /// One in memory, where there is such a folder: syncs are counted there as anywhere, and take no time.
    static func inMemory() -> TemporaryFolder {
        TemporaryFolder(under: Files.exists("/dev/shm") ? "/dev/shm" : "/tmp")
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
