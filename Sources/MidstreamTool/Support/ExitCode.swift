/// What the process tells its parent when it ends.
enum ExitCode: Equatable {
    case success
    case failure
    /// The command line could not be understood: `EX_USAGE` of sysexits.h.
    case usage
    /// A signal ended the work.
    case signal(Int32)

    var status: Int32 {
        switch self {
        case .success: 0
        case .failure: 1
        case .usage: 64
        case .signal(let number): 128 + number
        }
    }
}
