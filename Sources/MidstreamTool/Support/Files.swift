#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Questions about files.
enum Files {
    static func exists(_ path: String) -> Bool {
        access(path, F_OK) == 0
    }

    static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// Whether both paths lead to the same file.
    static func areSame(_ first: String, _ second: String) -> Bool {
        var a = stat()
        var b = stat()
        guard stat(first, &a) == 0, stat(second, &b) == 0 else { return false }
        return a.st_dev == b.st_dev && a.st_ino == b.st_ino
    }

    /// Whether a file has no bytes.
    static func isEmpty(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_size == 0
    }

    /// Removes a file. A file that does not exist is no error.
    static func remove(_ path: String) {
        unlink(path)
    }

    /// Runs `body` with a new folder. The folder and its files are removed in the end.
    static func withTemporaryFolder<Result>(_ body: (String) throws -> Result) throws -> Result {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array((parent + "/midstream-XXXXXX").utf8CString)
        guard let made = mkdtemp(&template) else { throw CommandFailure("no folder can be made in \(parent)") }
        let folder = String(cString: made)
        defer {
            for name in names(in: folder) { unlink(folder + "/" + name) }
            rmdir(folder)
        }
        return try body(folder)
    }

    private static func names(in folder: String) -> [String] {
        guard let entries = opendir(folder) else { return [] }
        defer { closedir(entries) }
        var names: [String] = []
        while let entry = readdir(entries) {
            withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { names.append(String(cString: $0)) }
            }
        }
        return names.filter { $0 != "." && $0 != ".." }
    }
}
