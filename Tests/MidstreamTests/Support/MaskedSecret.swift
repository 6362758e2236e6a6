@testable import SQLiteConnection

/// Bytes that are in memory only in masked form, so that a search of the memory does not find the pattern that it
/// searches for.
struct MaskedSecret {
    private let masked: [UInt8]
    private let mask: [UInt8]

    /// Makes up a secret.
    init(count: Int) {
        masked = (0..<count).map { _ in UInt8.random(in: .min ... .max) }
        mask = (0..<count).map { _ in UInt8.random(in: .min ... .max) }
    }

    /// Masks a copy of a given secret.
    init(_ secret: UnsafeRawBufferPointer) {
        let mask = (0..<secret.count).map { _ in UInt8.random(in: .min ... .max) }
        masked = zip(secret, mask).map { $0 ^ $1 }
        self.mask = mask
    }

    var count: Int { masked.count }

    subscript(index: Int) -> UInt8 { masked[index] ^ mask[index] }

    /// Runs `body` with the secret in memory that is wiped afterwards.
    func revealed<Result>(_ body: (UnsafeMutableRawBufferPointer) throws -> Result) rethrows -> Result {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
        defer {
            for index in buffer.indices { buffer.storeBytes(of: 0, toByteOffset: index, as: UInt8.self) }
            buffer.deallocate()
        }
        for index in buffer.indices { buffer[index] = self[index] }
        return try body(buffer)
    }
}
