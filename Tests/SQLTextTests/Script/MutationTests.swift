import OutlineChecks
import SQLCorpus
import SQLText
import Testing

/// Texts that are hardly SQL, or no SQL at all. `make outline-fuzz` tries such texts for as long as one likes.
@Suite("Texts of any kind")
struct MutationTests {
    static let seeds = (1...8).map { UInt64($0) &* 0x9E37_79B9_7F4A_7C15 }

    @Test("The outlines of mutated statements are sound", arguments: seeds)
    func mutations(_ seed: UInt64) {
        var mutations = Mutations(seed: seed)
        for _ in 0..<1000 {
            expectSound(mutations.pieces(), "seed \(seed)")
            expectSound(mutations.changedBytes(), "seed \(seed)")
            expectSound(mutations.changedTokens(), "seed \(seed)")
        }
    }

    @Test("The outline of every prefix of a statement is sound")
    func prefixes() {
        for statement in Corpus.all {
            var prefix = statement
            while !prefix.isEmpty {
                expectSound(prefix, "a prefix")
                prefix.removeLast()
            }
        }
    }

    @Test(
        "What fuzzing has found stays mended",
        arguments: [
            #"SELECT main.a.id x T"t"main.a.b 20 ORE main.a.k=10 ORDER BY 1?"#, "UPDATE[T]SET a=1",
            "SELECT 1.main.a.b", "SELECT ?2147483647, ?", "SELECT $a(b)5",
        ]
    )
    func findings(_ text: String) {
        expectSound(text, "a finding")
    }

    private func expectSound(_ text: String, _ what: String) {
        let problems = OutlineCheck.problems(in: text)
        #expect(problems.isEmpty, "\(what): \(problems.joined(separator: "; ")) in \(text.debugDescription)")
    }
}
