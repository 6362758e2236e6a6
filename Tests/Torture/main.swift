#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

// Runs processes that step, write, read, come and go, checkpoint, cancel, and are killed, all at the same time, on the
// same files, in rounds: `MidstreamTorture --seconds 60 --seed 1`. `--round` begins with another round than the first.
//
// The seed determines what the processes draw, but not what the system makes of it.

let arguments = Array(CommandLine.arguments.dropFirst())

func number(_ name: String) -> UInt64? {
    arguments.firstIndex(of: name).flatMap { UInt64(arguments.dropFirst($0 + 1).first ?? "") }
}

if let lane = number("--lane"), let generation = number("--generation"), let round = number("--round"),
    let seed = number("--seed"), let folder = arguments.last
{
    let plan = Plan(seed: seed, round: Int(round), folder: folder)
    RoundProcess(plan: plan, lane: Int(lane), generation: Int(generation)).run()
}

let known = ["--seconds", "--seed", "--round"]
let isUnderstood = stride(from: 0, to: arguments.count, by: 2)
    .allSatisfy { known.contains(arguments[$0]) && number(arguments[$0]) != nil }
guard isUnderstood else {
    print("usage: MidstreamTorture [--seconds NUMBER] [--seed NUMBER] [--round NUMBER]")
    exit(64)
}
let torture = Torture(seed: number("--seed") ?? UInt64(time(nil)), round: Int(number("--round") ?? 0))
exit(torture.run(for: .seconds(Int64(number("--seconds") ?? 3600))) ? 0 : 1)
