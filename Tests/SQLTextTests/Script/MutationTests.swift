import SQLText
import Testing

/// Xorshift: the same texts from the same seed everywhere.
private struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state ^= state &<< 13
        state ^= state &>> 7
        state ^= state &<< 17
        return state
    }
}

@Suite("Texts of any kind")
struct MutationTests {
    static let seeds = (1...8).map { UInt64($0) &* 0x9E37_79B9_7F4A_7C15 }

    @Test("Mutated statements are outlined within their text", arguments: seeds)
    func mutations(_ seed: UInt64) {
        var generator = SeededGenerator(state: seed)
        for _ in 0..<300 {
            let text = Self.mutated(using: &generator)
            expectTiles(text)
            expectSound(text, seed)
        }
    }

    @Test("Every prefix of a statement is outlined")
    func prefixes() {
        for statement in Corpus.all {
            var prefix = statement
            while !prefix.isEmpty {
                expectSound(prefix, 0)
                prefix.removeLast()
            }
        }
    }

    /// Pieces of two statements, perhaps with odd characters between.
    private static func mutated(using generator: inout SeededGenerator) -> String {
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

    /// Statements follow each other, and every range lies in the statement's.
    private func expectSound(_ text: String, _ seed: UInt64) {
        var end = 0
        for outline in SQLScript(text) {
            var ranges = [
                outline.with, outline.indexedBy, outline.columns, outline.query, outline.arguments, outline.verb,
            ]
            ranges += [
                outline.set, outline.from, outline.whereClause, outline.orderBy, outline.limit, outline.returning,
            ]
            ranges += outline.upsert.map { $0 }
            ranges += outline.tableReferences.map(\.name.range)
            ranges += outline.parameters.map(\.range)
            let areInside = ranges.allSatisfy { range in
                range.map { outline.range.lowerBound <= $0.lowerBound && $0.upperBound <= outline.range.upperBound }
                    ?? true
            }
            let isForward = outline.endOffset > end && outline.range.upperBound <= outline.endOffset
            let isBehind = outline.range.lowerBound >= end
            #expect(areInside && isForward && isBehind, "seed \(seed): \(text.debugDescription)")
            end = outline.endOffset
        }
        #expect(end <= text.utf8.count)
    }
}
