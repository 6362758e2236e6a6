internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Asks for a line on the terminal without showing it.
enum TerminalPrompt {
    private static let received = Atomic<Int32>(0)
    /// The signals that would end or stop the process. They must not leave the terminal without echo.
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    /// - Parameter buffer: Gets the line without its line feed.
    /// - Returns: The line's length; the buffer's length if the line does not fit; `nil` if there is no terminal.
    static func ask(_ prompt: String, into buffer: UnsafeMutableRawBufferPointer) throws -> Int? {
        guard let terminal = SystemCalls.openTerminal() else { return nil }
        defer { SystemCalls.close(terminal) }
        while true {
            received.store(0, ordering: .relaxed)
            let actions = signals.map { number in
                // The action is not taken as signal() returns it: SIG_IGN is no address, and Swift takes such an
                // optional function for none.
                var action = sigaction()
                sigaction(number, nil, &action)
                signal(number) { TerminalPrompt.received.store($0, ordering: .relaxed) }
                return action
            }
            let count = try readHidden(terminal, prompt, buffer)
            for (number, var action) in zip(signals, actions) { sigaction(number, &action, nil) }
            if let count { return count }
            // The signal now has its usual effect. If the process lives on, it asks again.
            kill(getpid(), received.load(ordering: .relaxed))
        }
    }

    /// - Returns: `nil` if a signal came.
    private static func readHidden(
        _ terminal: Int32,
        _ prompt: String,
        _ buffer: UnsafeMutableRawBufferPointer
    ) throws -> Int? {
        var usual = termios()
        guard tcgetattr(terminal, &usual) == 0 else { throw unreadable() }
        var hidden = usual
        hidden.c_lflag &= ~tcflag_t(ECHO)
        hidden.c_lflag |= tcflag_t(ECHONL | ICANON | ISIG)
        guard tcsetattr(terminal, TCSAFLUSH, &hidden) == 0 else { throw unreadable() }
        defer { tcsetattr(terminal, TCSANOW, &usual) }
        SystemCalls.write(Array(prompt.utf8), to: terminal)
        guard let count = try readLine(terminal, buffer) else {
            SystemCalls.write([UInt8(ascii: "\n")], to: terminal)
            return nil
        }
        return count
    }

    private static func readLine(_ terminal: Int32, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int? {
        var count = 0
        while count < buffer.count {
            if received.load(ordering: .relaxed) != 0 { return nil }
            // This wakes up now and then, since a signal may come just before the wait.
            var wait = pollfd(fd: terminal, events: Int16(POLLIN), revents: 0)
            guard poll(&wait, 1, 100) > 0 else { continue }
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
            guard let more = SystemCalls.read(terminal, into: rest) else { throw unreadable() }
            guard more > 0 else { return count }
            count += more
            if buffer[count - 1] == UInt8(ascii: "\n") { return count - 1 }
        }
        return count
    }

    private static func unreadable() -> CommandFailure {
        CommandFailure("the terminal cannot be read: \(SystemCalls.lastError)")
    }
}
