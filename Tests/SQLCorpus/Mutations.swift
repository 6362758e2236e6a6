import SQLText

/// Texts made of the corpus's statements: hardly SQL, or not at all.
public struct Mutations {
    private var generator: Xorshift

    /// The same seed gives the same texts everywhere.
    public init(seed: UInt64) { generator = Xorshift(state: seed) }

    /// Pieces of statements, perhaps with odd characters between.
    public mutating func pieces() -> String {
        var text = ""
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let scalars = Array(Corpus.all.randomElement(using: &generator)!.unicodeScalars)
            let start = Int.random(in: 0...scalars.count, using: &generator)
            let end = Int.random(in: start...scalars.count, using: &generator)
            var piece = String.UnicodeScalarView()
            piece.append(contentsOf: scalars[start..<end])
            text += String(piece)
            text += ["", " ", ";", "(", ")", "'", "\"", "[", "/*", "--", "\0", ".", "é", "\n", "$", "0x", "x'"]
                .randomElement(using: &generator)!
        }
        return text
    }

    /// A statement with some bytes changed, left out or put in.
    public mutating func changedBytes() -> String {
        var bytes = Array(Corpus.all.randomElement(using: &generator)!.utf8)
        for _ in 0..<Int.random(in: 1...5, using: &generator) {
            let start = Int.random(in: 0...bytes.count, using: &generator)
            let end = min(bytes.count, start + Int.random(in: 0...2, using: &generator))
            let added = (0..<Int.random(in: 0...2, using: &generator)).map { _ in
                UInt8.random(in: Bool.random(using: &generator) ? 0x20...0x7E : 0...0xFF, using: &generator)
            }
            bytes.replaceSubrange(start..<end, with: added)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A statement with some tokens swapped, said again, left out, or replaced by another statement's; spaces are tokens.
    public mutating func changedTokens() -> String {
        var tokens = Self.tokens.randomElement(using: &generator)!
        for _ in 0..<Int.random(in: 1...5, using: &generator) {
            let index = tokens.indices.randomElement(using: &generator)!
            let other = tokens.indices.randomElement(using: &generator)!
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: tokens.swapAt(index, other)
            case 1: tokens.insert(tokens[other], at: index)
            case 2: tokens[index] = ""
            case 3: tokens.replaceSubrange(min(index, other)...max(index, other), with: [tokens[index]])
            default: tokens[index] = Self.tokens.randomElement(using: &generator)!.randomElement(using: &generator)!
            }
        }
        return tokens.joined()
    }

    private static let tokens = Corpus.all.map { statement in
        let bytes = Array(statement.utf8)
        return SQLTokenizer(statement).map { String(decoding: bytes[$0.range], as: UTF8.self) }
    }
}

private struct Xorshift: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state ^= state &<< 13
        state ^= state &>> 7
        state ^= state &<< 17
        return state
    }
}
