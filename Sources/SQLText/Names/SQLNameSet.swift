/// A set of names, in which tokens are looked up without a string being made of each.
public struct SQLNameSet: Sendable {
    private let namesByHash: [UInt64: [String]]
    /// One bit for each length in bytes that a name has; lengths of 63 and more share a bit. Most words have a length
    /// that no name has.
    private let lengths: UInt64

    /// Creates a set of names. The case of ASCII letters does not count.
    public init(_ names: some Sequence<String>) {
        var namesByHash: [UInt64: [String]] = [:]
        var lengths: UInt64 = 0
        for name in names {
            lengths |= Self.bit(ofLength: name.utf8.count)
            var hash = Self.seed
            for byte in name.utf8 { Self.add(byte, to: &hash) }
            namesByHash[hash, default: []].append(name)
        }
        self.namesByHash = namesByHash
        self.lengths = lengths
    }

    /// Whether the set has no names.
    public var isEmpty: Bool {
        namesByHash.isEmpty
    }

    /// Whether the set has the name.
    public func contains(_ name: String) -> Bool {
        contains(Array(name.utf8)[...], isBare: true)
    }

    /// Whether a token that can be a name is in the set.
    func contains(_ token: Token, of bytes: borrowing SQLBytes) -> Bool {
        switch token.kind {
        case .identifier: contains(bytes.storage[token.range], isBare: true)
        case .quotedIdentifier, .string: contains(bytes.storage[token.range], isBare: false)
        default: false
        }
    }

    private func contains(_ text: ArraySlice<UInt8>, isBare: Bool) -> Bool {
        var hash = Self.seed
        if isBare {
            guard lengths & Self.bit(ofLength: text.count) != 0 else { return false }
            for byte in text { Self.add(byte, to: &hash) }
        } else {
            SQLIdentifier.forEachByte(of: text) { Self.add($0, to: &hash) }
        }
        guard let names = namesByHash[hash] else { return false }
        let name = isBare ? String(decoding: text, as: UTF8.self) : SQLIdentifier.unquoted(text)
        return names.contains { SQLIdentifier.equal($0, name) }
    }

    private static func bit(ofLength length: Int) -> UInt64 { 1 << UInt64(min(length, 63)) }

    // FNV-1a over the bytes in lower case.
    private static let seed: UInt64 = 0xCBF2_9CE4_8422_2325

    @inline(__always)
    private static func add(_ byte: UInt8, to hash: inout UInt64) {
        hash = (hash ^ UInt64(ByteClass.lowercased(byte))) &* 0x0000_0100_0000_01B3
    }
}
