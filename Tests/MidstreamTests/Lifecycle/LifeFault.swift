import MidstreamTesting
import SQLiteConnection

/// One operation on a file that fails, once or until the application has seen it.
struct LifeFault: CustomStringConvertible {
    private let operation: FileOperation
    private let number: Int
    private let code: ResultCode?
    private let isPersistent: Bool
    /// Whether the application closes its files when it has seen the error.
    let reopens: Bool

    init(_ dice: Dice) {
        operation = dice.pick([
            .write, .write, .sync, .read, .open, .truncate, .delete, .lock, .lockSharedMemory, .fileSize, .access,
        ])
        number = dice.pick([1, 1, 2, 3, 5, 9, 17, 40])
        code = operation == .write && dice.percent(50) ? .full : nil
        isPersistent = dice.percent(40)
        reopens = dice.percent(50)
    }

    var description: String {
        "\(number). \(operation) fails\(isPersistent ? " and all after it" : "")\(code == nil ? "" : ", being full")"
    }

    func start(_ files: [String]) {
        let all = files.flatMap { file in ["", "-wal", "-journal", "-shm"].map { file + $0 } }
        FailingVFS.fail(
            FileFault(operation, number: number, isPersistent: isPersistent, code: code, files: Set(all))
        )
    }
}

extension LifeWorld {
    func startFault() {
        fault?.start((0..<Self.fileCount).map { path($0) })
    }

    var hasStruck: Bool { fault != nil && FailingVFS.failures > 0 }

    func endFault() {
        if hasStruck { faults.struck += 1 }
        FailingVFS.clear()
        fault = nil
    }

    /// Does something that may fail because of the fault. If it does, does it once more without the fault.
    func faulty<Result>(_ what: String, _ body: () throws -> Result) throws -> Result {
        guard let fault else { return try body() }
        startFault()
        do {
            let result = try body()
            endFault()
            return result
        } catch {
            guard hasStruck else {
                endFault()
                throw error
            }
            endFault()
            note("  fault in \(what): \(error)")
            if fault.reopens, !isOpenTwice { closeAll() }
            return try body()
        }
    }
}
