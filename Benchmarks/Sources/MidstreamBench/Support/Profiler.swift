internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Tells `perf record` when to record. `Scripts/profile` starts it with two named pipes: one that takes commands, and
/// one that tells when they are obeyed (`perf record --control fifo:…`).
final class Profiler {
    private let commands: Int32
    private let answers: Int32

    /// - Parameter path: The pipes are `<path>.commands` and `<path>.answers`.
    init(_ path: String) throws {
        commands = open(path + ".commands", O_WRONLY)
        answers = open(path + ".answers", O_RDONLY)
        guard commands >= 0, answers >= 0 else {
            throw SQLiteError(code: .cannotOpen, message: "there are no pipes \(path).commands and \(path).answers")
        }
    }

    deinit {
        close(commands)
        close(answers)
    }

    /// Lets the profiler record what `work` does, and nothing else.
    func look(at work: () throws -> Void) throws {
        tell("enable\n")
        defer { tell("disable\n") }
        try work()
    }

    private func tell(_ command: String) {
        let bytes = Array(command.utf8)
        _ = write(commands, bytes, bytes.count)
        // The profiler answers "ack\n" when it has obeyed.
        var answer = [UInt8](repeating: 0, count: 16)
        while case let count = read(answers, &answer, answer.count), count > 0 {
            if answer[..<count].contains(UInt8(ascii: "\n")) { return }
        }
    }
}
