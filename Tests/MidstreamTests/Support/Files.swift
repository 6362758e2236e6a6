#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What tests do with files.
enum Files {
    /// The folder in which files are made: `MIDSTREAM_TEST_FOLDER`, or else one in memory, if there is one. There,
    /// syncs are counted as anywhere, and take no time.
    static let folder: String =
        getenv("MIDSTREAM_TEST_FOLDER").map { String(cString: $0) }
        ?? (access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")

    /// A folder that is more likely to be on a disk.
    static let diskFolder = "/var/tmp"

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    static func copy(_ from: String, to: String) {
        let (input, output) = (open(from, O_RDONLY), open(to, O_WRONLY | O_CREAT | O_TRUNC, 0o644))
        precondition(input >= 0 && output >= 0, "cannot copy \(from) to \(to)")
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(input, &buffer, buffer.count)
            guard count > 0 else { break }
            precondition(write(output, buffer, count) == count)
        }
        close(input)
        close(output)
    }

    /// Copies a database, which nobody has open, together with its WAL.
    static func copyDatabase(_ from: String, to: String) {
        for suffix in ["", "-wal", "-journal"] {
            if exists(from + suffix) { copy(from + suffix, to: to + suffix) } else { unlink(to + suffix) }
        }
        unlink(to + "-shm")
    }

    /// Moves a database, which nobody has open, together with the files that stand beside it.
    static func moveDatabase(_ from: String, to: String) {
        for suffix in ["", "-wal", "-shm", "-journal"] { rename(from + suffix, to + suffix) }
    }

    /// Removes a file, or a folder with all that is in it. Of a link, removes the link, and not the file to which it
    /// leads.
    static func remove(_ path: String) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFDIR, let folder = opendir(path) else {
            unlink(path)
            return
        }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { remove(path + "/" + name) }
        }
        closedir(folder)
        rmdir(path)
    }

    static func removeDatabase(_ path: String) {
        for suffix in ["", "-wal", "-shm", "-journal"] { unlink(path + suffix) }
    }

    /// Adds a byte to a file in one call of the system. What a process has told others in this way stays if the process
    /// is killed.
    static func mark(_ path: String, _ byte: UInt8 = 0x2e) {
        let file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        var byte = byte
        precondition(write(file, &byte, 1) == 1)
        close(file)
    }

    static func size(_ path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// All bytes of a file; none if the file cannot be read.
    static func bytes(_ path: String) -> [UInt8] {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { return [] }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: size(path))
        let count = read(file, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count)))
    }

    static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }
}

/// A generator that gives the same numbers for the same seed everywhere.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
