#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// The few system calls that the tool needs.
enum SystemCalls {
    static let standardInput: Int32 = 0
    static let standardOutput: Int32 = 1
    static let standardError: Int32 = 2

    /// The number of the signal, and of the error, when the reader of a pipe has gone.
    static let brokenPipe = (signal: SIGPIPE, error: EPIPE)

    /// Writes all bytes, or as many as the reader takes.
    ///
    /// - Returns: The error's number if not all bytes have been written.
    @discardableResult
    static func write(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Self.write(descriptor, UnsafeRawBufferPointer(rebasing: buffer[done...]))
            }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                // The pipe's reader has made the pipe non-blocking.
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&wait, 1, -1)
                continue
            }
            guard count > 0 else { return count < 0 ? errno : EIO }
            done += count
        }
        return nil
    }

    private static func write(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.write(descriptor, buffer.baseAddress, buffer.count)
        #elseif canImport(Darwin)
            Darwin.write(descriptor, buffer.baseAddress, buffer.count)
        #else
            Musl.write(descriptor, buffer.baseAddress, buffer.count)
        #endif
    }

    /// Reads the bytes that are available, at least one; no bytes at the end.
    ///
    /// - Returns: `nil` if the file cannot be read.
    static func read(_ descriptor: Int32, atMost capacity: Int = 65_536) -> [UInt8]? {
        var count: Int?
        let bytes = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, initialized in
            count = read(descriptor, into: UnsafeMutableRawBufferPointer(buffer))
            initialized = count ?? 0
        }
        return count.map { _ in bytes }
    }

    /// Reads the bytes that are available into memory, at least one. Returns how many; 0 at the end.
    ///
    /// - Returns: `nil` if the file cannot be read.
    static func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        while true {
            #if canImport(Glibc)
                let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            #elseif canImport(Darwin)
                let count = Darwin.read(descriptor, buffer.baseAddress, buffer.count)
            #else
                let count = Musl.read(descriptor, buffer.baseAddress, buffer.count)
            #endif
            if count >= 0 { return count }
            if errno != EINTR { return nil }
        }
    }

    /// Opens a file for reading; `nil` if that fails.
    static func openForReading(_ path: String) -> Int32? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        return descriptor < 0 ? nil : descriptor
    }

    /// Opens the terminal from which the process was started; `nil` if there is none.
    static func openTerminal() -> Int32? {
        let descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        return descriptor < 0 ? nil : descriptor
    }

    static func close(_ descriptor: Int32) {
        #if canImport(Glibc)
            _ = Glibc.close(descriptor)
        #elseif canImport(Darwin)
            _ = Darwin.close(descriptor)
        #else
            _ = Musl.close(descriptor)
        #endif
    }

    /// Moves a variable's value out of the environment. The value is overwritten there, and the variable is then
    /// removed.
    ///
    /// - Returns: The value's length; the buffer's length if the value does not fit; `nil` if there is no such
    ///   variable.
    static func takeEnvironment(_ name: String, into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        guard let value = getenv(name) else { return nil }
        let length = strlen(value)
        buffer.copyMemory(from: UnsafeRawBufferPointer(start: value, count: min(length, buffer.count)))
        memset(value, 0, length)
        unsetenv(name)
        return min(length, buffer.count)
    }

    /// The message of the last call that failed.
    static var lastError: String { message(ofError: errno) }

    static func message(ofError number: Int32) -> String { String(cString: strerror(number)) }

    static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// The terminal's width in columns; 80 if the terminal does not tell it.
    static func terminalWidth() -> Int {
        var size = winsize()
        guard ioctl(standardOutput, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    static func sleep(milliseconds: UInt32) { usleep(milliseconds * 1000) }

    /// Ends the process at once.
    static func exitNow(_ status: Int32) -> Never { _exit(status) }
}
