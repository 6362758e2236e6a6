/// One thing that happens in a life. The operation's seed, and how far the life has come, determine the details.
struct LifeOperation: Sendable, CustomStringConvertible {
    enum Kind: String, CaseIterable, Sendable {
        case write, step, finish, add, cancel, rebuild, alter, reopen, openTwice, writePlainly, useFile, backUpOrRestore
        case split, movePart, join, relocate, upgrade, useKept, holdReader, fail
    }

    var kind: Kind
    var seed: UInt64

    var description: String { "\(kind.rawValue)(\(seed))" }

    private static let weights: [(Int, Kind)] = [
        (24, .write), (20, .step), (3, .finish), (14, .add), (6, .cancel), (10, .rebuild), (8, .alter), (8, .reopen),
        (3, .openTwice), (6, .writePlainly), (4, .useFile), (3, .backUpOrRestore),
        (6, .split), (4, .movePart), (4, .holdReader), (5, .join), (3, .relocate), (6, .upgrade), (5, .useKept),
        (12, .fail),
    ]

    static func random(_ dice: Dice) -> LifeOperation {
        LifeOperation(kind: dice.weighted(weights), seed: UInt64(dice.below(1 << 40)))
    }

    func run(in world: LifeWorld) throws {
        let dice = Dice(seed: seed, number: 0)
        switch kind {
        case .write: try world.write(dice)
        case .step: try world.step(dice)
        case .finish: try world.finishOne(dice)
        case .add: try world.addMigration(dice)
        case .cancel: try world.cancel(dice)
        case .rebuild: try world.rebuild(dice)
        case .alter: try world.alter(dice)
        case .reopen: try world.reopen(dice)
        case .openTwice: try world.openTwice(dice)
        case .writePlainly: try world.writePlainly(dice)
        case .useFile: try world.useFile(dice)
        case .backUpOrRestore: try world.backUpOrRestore(dice)
        case .split: try world.split(dice)
        case .movePart: try world.movePart(dice)
        case .join: try world.join(dice)
        case .relocate: try world.relocate(dice)
        case .upgrade: try world.upgrade(dice)
        case .useKept: try world.useKept(dice)
        case .holdReader: try world.holdReader(dice)
        case .fail:
            world.fault = LifeFault(dice)
            world.faults.begun += 1
            let kind = dice.weighted(
                Self.weights.filter { ![.fail, .useFile, .backUpOrRestore, .relocate, .holdReader].contains($0.1) }
            )
            world.note("\(kind), in which the \(world.fault?.description ?? "")")
            try LifeOperation(kind: kind, seed: seed &+ 1).run(in: world)
            world.fault = nil
        }
    }
}
