#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// The folder that the demonstration works in.
struct DemoFolder {
    let path: String
    /// Whether the folder stays after the demonstration.
    let isKept: Bool

    var old: String { path + "/old.db" }
    var new: String { path + "/new.db" }
    var plain: String { path + "/plain.db" }

    /// - Parameter kept: A folder that is created and stays; `nil` for a folder that is removed.
    init(kept: String?) throws(CommandFailure) {
        if let kept {
            path = kept
            isKept = true
            guard mkdir(kept, 0o777) == 0 || errno == EEXIST else {
                throw CommandFailure("cannot create the folder \(kept): \(SystemCalls.lastError)")
            }
            for file in [old, new, plain] where Files.exists(file) {
                throw CommandFailure("\(file) is there already: give an empty folder")
            }
            return
        }
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/midstream-demo-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else {
            throw CommandFailure("cannot create a folder in \(parent): \(SystemCalls.lastError)")
        }
        path = String(cString: made)
        isKept = false
    }

    /// Removes the files and the folder of the demonstration, unless the folder stays.
    func remove() {
        if isKept { return }
        for file in [old, new, plain] {
            for suffix in ["", "-wal", "-shm", "-journal"] { unlink(file + suffix) }
        }
        rmdir(path)
    }

    /// Copies a database file that nobody has open.
    func copy(_ source: String, to target: String) throws(CommandFailure) {
        guard let input = SystemCalls.openForReading(source) else {
            throw CommandFailure("cannot read \(source): \(SystemCalls.lastError)")
        }
        defer { close(input) }
        let output = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        guard output >= 0 else { throw CommandFailure("cannot create \(target): \(SystemCalls.lastError)") }
        defer { close(output) }
        while true {
            guard let bytes = SystemCalls.read(input, atMost: 1 << 20) else {
                throw CommandFailure("cannot read \(source): \(SystemCalls.lastError)")
            }
            if bytes.isEmpty { return }
            if SystemCalls.write(bytes, to: output) != nil {
                throw CommandFailure("cannot write \(target): \(SystemCalls.lastError)")
            }
        }
    }

    static func size(of path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }
}
