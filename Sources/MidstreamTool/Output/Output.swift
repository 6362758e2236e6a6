/// Standard output, written in large pieces, and standard error.
///
/// A class, since everything that writes shares the buffer. It is used on one thread.
final class Output {
    private var buffer: [UInt8] = []
    private let descriptor: Int32
    private static let capacity = 65_536
    /// The number of the first error of a write; `nil` while no output is lost.
    private(set) var failure: Int32?

    init(descriptor: Int32 = SystemCalls.standardOutput) {
        self.descriptor = descriptor
        buffer.reserveCapacity(Self.capacity)
    }

    func write(_ bytes: [UInt8]) {
        buffer += bytes
        if buffer.count >= Self.capacity { flush() }
    }

    func write(_ text: String) {
        buffer += text.utf8
        if buffer.count >= Self.capacity { flush() }
    }

    func line(_ text: String) {
        write(text + "\n")
    }

    func flush() {
        guard !buffer.isEmpty else { return }
        // Output after a gap is of no use.
        if failure == nil { failure = SystemCalls.write(buffer, to: descriptor) }
        buffer.removeAll(keepingCapacity: true)
    }

    /// Writes a line to standard error, after all output that was written before it.
    func error(_ text: String) {
        flush()
        SystemCalls.write(Array((text + "\n").utf8), to: SystemCalls.standardError)
    }
}
