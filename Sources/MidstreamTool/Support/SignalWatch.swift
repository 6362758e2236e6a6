internal import Dispatch
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Notes Ctrl-C and a request to end, so that work can stop between two steps. A second signal ends the process at
/// once, and the files survive that too.
///
/// Unchecked Sendable: only the owner makes and cancels the sources, and everything else is Sendable.
final class SignalWatch: @unchecked Sendable {
    private let received = Atomic<Int32>(0)
    private let wakeUp = DispatchSemaphore(value: 0)
    private var sources: [any DispatchSourceSignal] = []

    init() {
        for number in [SIGINT, SIGTERM] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global(qos: .userInitiated))
            source.setEventHandler { @Sendable [self] in
                let (isFirst, _) = received.compareExchange(expected: 0, desired: number, ordering: .relaxed)
                if !isFirst { SystemCalls.exitNow(ExitCode.signal(number).status) }
                wakeUp.signal()
            }
            source.resume()
            sources.append(source)
        }
    }

    /// The signal that has come; `nil` before one has come.
    var signalReceived: Int32? {
        let number = received.load(ordering: .relaxed)
        return number == 0 ? nil : number
    }

    /// Sleeps for a duration, or until a signal comes.
    func sleep(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        let nanoseconds = Int(clamping: seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000)
        guard nanoseconds > 0, signalReceived == nil else { return }
        _ = wakeUp.wait(timeout: .now() + .nanoseconds(nanoseconds))
    }

    /// Gives the signals their usual effect again.
    func stop() {
        for source in sources { source.cancel() }
        sources.removeAll()
        signal(SIGINT, SIG_DFL)
        signal(SIGTERM, SIG_DFL)
    }
}
