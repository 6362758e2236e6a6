import Midstream
import SQLiteConnection

/// The life of some files, from their beginning to their end, with all that happens to them meanwhile.
struct Life {
    var seed: UInt64
    var number: Int
    var operations: [LifeOperation]

    /// How a life went wrong.
    struct Failure {
        var problem: String
        /// How many operations had begun.
        var operations: Int
        var log: [String]
    }

    init(seed: UInt64, number: Int) {
        self.seed = seed
        self.number = number
        let dice = Dice(seed: seed, number: number)
        operations = (0..<dice.between(6, 40)).map { _ in LifeOperation.random(dice) }
    }

    /// What happened in lives that went well.
    struct Counts {
        var refusals: [String: Int] = [:]
        var faults = 0
        var struck = 0
    }

    /// Runs the life, and checks every table after each operation.
    func run(_ counts: inout Counts, isVerbose: Bool = false) -> Failure? {
        var begun = 0
        var world: LifeWorld?
        do {
            let made = try LifeWorld(Dice(seed: seed, number: -1 - number))
            made.isVerbose = isVerbose
            world = made
            try made.check()
            for operation in operations {
                begun += 1
                made.note("-- \(operation)")
                try operation.run(in: made)
                try made.check(plainlyToo: begun % 4 == 0)
            }
            begun += 1
            try made.end()
            counts.refusals.merge(made.refusals, uniquingKeysWith: +)
            counts.faults += made.faults.begun
            counts.struck += made.faults.struck
            return nil
        } catch is LifeOver {
            return nil
        } catch {
            return Failure(problem: "\(error)", operations: begun, log: world?.log ?? [])
        }
    }

    /// A life with as few operations as it takes to go wrong in the same way, and its failure.
    func shrunk(_ failure: Failure) -> (Life, Failure) {
        var (best, result) = (self, failure)
        best.operations = Array(operations.prefix(failure.operations))
        var width = max(1, best.operations.count / 2)
        while width >= 1 {
            var start = 0
            while start < best.operations.count {
                var candidate = best
                candidate.operations.removeSubrange(start..<min(start + width, candidate.operations.count))
                var counts = Counts()
                if let found = candidate.run(&counts), Self.kind(found.problem) == Self.kind(failure.problem) {
                    (best, result) = (candidate, found)
                } else {
                    start += width
                }
            }
            width /= 2
        }
        return (best, result)
    }

    /// The part of a problem's text that problems of the same kind have in common.
    static func kind(_ problem: String) -> String {
        let words = problem.replacing("t", with: "").filter { !$0.isNumber }
        return String(words.prefix(24))
    }
}

extension LifeWorld {
    /// Brings everything to its end: all moves, in all files.
    func end() throws {
        note("-- the end")
        closeAll()
        try launch(saysCalls: true)
        try check()
        for round in 0..<8 {
            var isFinished = true
            for file in 0..<Self.fileCount where Files.exists(path(file)) {
                // A file cannot be deleted while somebody has it open.
                closeAll()
                try finish(file)
                if try !(database(file).readMigrationProgress().isFinished) { isFinished = false }
            }
            if isFinished { break }
            if round == 7 {
                let progress = try (0..<Self.fileCount).filter { Files.exists(path($0)) }
                    .map { try "f\($0): " + Self.text(database($0).readMigrationProgress()) }
                throw LifeProblem("it does not come to its end: \(progress)")
            }
        }
        try check(plainlyToo: true)
        try writeInTheEnd()
    }

    /// Checks that every table is an ordinary one, to which plain SQLite can write.
    private func writeInTheEnd() throws {
        closeAll()
        for table in state.tables where table.part == nil {
            try plainly(table.place.file) { try $0.execute("UPDATE \(table.place.table) SET k = k") }
        }
    }
}
