#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What processes that may be killed at any moment tell each other by: files that each call of the system makes longer.
enum Files {
    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    static func append(_ text: String, to path: String) {
        let file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        var text = text
        let count = text.withUTF8 { write(file, $0.baseAddress, $0.count) }
        precondition(count == text.utf8.count, "cannot write \(path)")
        close(file)
    }

    static func size(_ path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    static func text(_ path: String) -> String {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { return "" }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: size(path))
        let count = read(file, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    static func makeFolder() -> String {
        var template = Array("/tmp/midstream-torture-XXXXXX".utf8CString)
        precondition(mkdtemp(&template) != nil, "cannot make a folder in /tmp")
        return String(decoding: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes a folder of files.
    static func removeFolder(_ path: String) {
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
}

/// A generator that gives the same numbers for the same seed everywhere.
///
/// Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
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
