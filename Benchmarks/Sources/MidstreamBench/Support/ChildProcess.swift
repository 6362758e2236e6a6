internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Runs this program again, in a process of its own, whose memory holds nothing from before.
enum ChildProcess {
    /// Runs the program to its end.
    ///
    /// - Returns: What the program printed.
    /// - Throws: An error if the program ended with a code other than 0.
    static func run(_ arguments: [String]) throws -> String {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw SQLiteError(code: .ioError, message: "there is no pipe to be had") }
        #if canImport(Darwin)
            var actions: posix_spawn_file_actions_t?
        #else
            var actions = posix_spawn_file_actions_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_addclose(&actions, ends[0])

        let words: [UnsafeMutablePointer<CChar>?] = ([CommandLine.arguments[0]] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var process = pid_t()
        let code = posix_spawn(&process, executable, &actions, nil, words, environ)
        close(ends[1])
        defer { close(ends[0]) }
        guard code == 0 else { throw SQLiteError(code: .error, message: "cannot start \(executable): error \(code)") }
        let output = readAll(ends[0])
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        guard status == 0 else { throw SQLiteError(code: .error, message: "a process of the benchmark failed") }
        return output
    }

    private static var executable: String {
        #if canImport(Darwin)
            CommandLine.arguments[0]
        #else
            "/proc/self/exe"
        #endif
    }

    private static func readAll(_ descriptor: Int32) -> String {
        var output: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 { output += buffer[..<count] }
        return String(decoding: output, as: UTF8.self)
    }
}
