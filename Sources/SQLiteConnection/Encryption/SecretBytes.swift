internal import SQLiteC

/// Bytes that are overwritten with zeros when nobody holds them any more.
///
/// Unchecked Sendable: the memory is written before the initializer returns, and only read from then on.
final class SecretBytes: @unchecked Sendable {
    private let memory: UnsafeMutableRawBufferPointer

    /// Copies bytes. Wiping the original is up to the caller.
    init(_ bytes: some Collection<UInt8>) {
        memory = .allocate(byteCount: bytes.count, alignment: 1)
        memory.copyBytes(from: bytes)
    }

    /// Has `body` write the bytes in place, so that there is no other copy.
    init(count: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Void) rethrows {
        memory = .allocate(byteCount: count, alignment: 1)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        do {
            try body(memory)
        } catch {
            midstream_wipe(memory.baseAddress, memory.count)
            memory.deallocate()
            throw error
        }
    }

    /// Has `body` write as many bytes as it finds, and say how many. The memory that `body` wrote is wiped.
    convenience init(capacity: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Int) rethrows {
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 1)
        defer {
            midstream_wipe(scratch.baseAddress, scratch.count)
            scratch.deallocate()
        }
        let count = try body(scratch)
        self.init(UnsafeRawBufferPointer(rebasing: scratch[..<count]))
    }

    deinit {
        midstream_wipe(memory.baseAddress, memory.count)
        memory.deallocate()
    }

    var count: Int { memory.count }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withExtendedLifetime(self) { try body(UnsafeRawBufferPointer(memory)) }
    }

    /// Compares in a time that does not tell where two secrets differ.
    static func == (a: SecretBytes, b: SecretBytes) -> Bool {
        guard a.count == b.count else { return false }
        return zip(a.memory, b.memory).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
