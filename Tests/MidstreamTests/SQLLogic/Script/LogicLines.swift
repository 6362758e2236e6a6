#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The lines of a text, without their ends, one after the other.
struct LogicLines {
    private let bytes: [UInt8]
    private var offset = 0
    /// The number of the line that was given last, from 1.
    private(set) var number = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func next() -> String? {
        guard offset < bytes.count else { return nil }
        number += 1
        return bytes.withUnsafeBytes { buffer in
            // A script has megabytes, and tests run without optimization, too.
            let rest = UnsafeRawBufferPointer(rebasing: buffer[offset...])
            let end = memchr(rest.baseAddress!, 0x0a, rest.count).map { UnsafeRawPointer($0) - rest.baseAddress! }
            var count = end ?? rest.count
            offset += count + 1
            if count > 0, rest[count - 1] == 0x0d { count -= 1 }
            return String(decoding: UnsafeRawBufferPointer(rebasing: rest[..<count]), as: UTF8.self)
        }
    }
}
