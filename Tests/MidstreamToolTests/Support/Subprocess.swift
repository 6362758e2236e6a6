#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Runs other programs, without Foundation, so that tests see signals and exit codes as the system reports them.
struct Subprocess {
    struct Result {
        var status: Int32
        var output: String
        var error: String
    }

    struct Failure: Error { var message: String }

    /// Runs a program to its end.
    ///
    /// - Parameters:
    ///   - environment: Variables that the program gets in addition to those of this process.
    ///   - started: Called with the process's number when the program runs.
    static func run(
        _ program: String,
        _ arguments: [String],
        input: String = "",
        environment: [String: String] = [:],
        started: (pid_t) -> Void = { _ in }
    ) throws -> Result {
        let files = try Files()
        defer { files.remove() }
        try write(input, to: files.input)
        #if canImport(Glibc)
            var actions = Actions()
        #else
            var actions: Actions
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, files.input, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, files.output, O_WRONLY | O_CREAT, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, files.error, O_WRONLY | O_CREAT, 0o600)
        let pid = try spawn(program, arguments, environment, &actions)
        started(pid)
        return Result(
            status: wait(for: pid),
            output: files.read(files.output),
            error: files.read(files.error)
        )
    }

    #if canImport(Glibc)
        typealias Actions = posix_spawn_file_actions_t
    #else
        typealias Actions = posix_spawn_file_actions_t?
    #endif

    /// Starts a program apart from this process's terminal. The program has no terminal, except one that the actions
    /// open.
    static func spawn(
        _ program: String,
        _ arguments: [String],
        _ environment: [String: String],
        _ actions: inout Actions
    ) throws -> pid_t {
        #if canImport(Glibc)
            var attributes = posix_spawnattr_t()
        #else
            var attributes: posix_spawnattr_t?
        #endif
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        #if canImport(Glibc)
            // This is POSIX_SPAWN_SETSID, which only GNU sources see.
            let setsid: Int16 = 0x80
        #else
            let setsid = Int16(POSIX_SPAWN_SETSID)
        #endif
        posix_spawnattr_setflags(&attributes, setsid | Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        // The test's thread may have blocked signals.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        // A program that runs the tests in the background may make them ignore signals.
        var ending = sigset_t()
        sigemptyset(&ending)
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] { sigaddset(&ending, signal) }
        posix_spawnattr_setsigdefault(&attributes, &ending)
        var argv = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var inherited: [String] = []
        var next = environ
        while let variable = next.pointee {
            inherited.append(String(cString: variable))
            next += 1
        }
        var variables = (environment.map { "\($0.key)=\($0.value)" } + inherited).map { strdup($0) } + [nil]
        defer { for variable in variables { free(variable) } }
        var pid = pid_t()
        let code = posix_spawnp(&pid, program, &actions, &attributes, &argv, &variables)
        guard code == 0 else { throw Failure(message: "\(program): \(String(cString: strerror(code)))") }
        return pid
    }

    /// - Returns: The exit code; for a process that a signal has ended, 128 and the signal's number.
    static func wait(for pid: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        let signal = status & 0x7f
        return signal == 0 ? (status >> 8) & 0xff : 128 + signal
    }

    /// Ends a process that has not ended after the given number of seconds.
    static func end(_ pid: pid_t, after seconds: Int) {
        for _ in 0..<seconds * 100 {
            var info = siginfo_t()
            waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT)
            if info.si_signo == SIGCHLD { return }
            usleep(10_000)
        }
        kill(pid, SIGKILL)
    }

    private struct Files {
        let folder: String
        var input: String { folder + "/input" }
        var output: String { folder + "/output" }
        var error: String { folder + "/error" }

        init() throws {
            var template = Array("/tmp/midstream-run-XXXXXX".utf8CString)
            guard let made = mkdtemp(&template) else { throw Failure(message: "no folder") }
            folder = String(cString: made)
        }

        func read(_ path: String) -> String {
            guard let file = fopen(path, "r") else { return "" }
            defer { fclose(file) }
            var bytes: [UInt8] = []
            var chunk = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = fread(&chunk, 1, chunk.count, file)
                if count == 0 { return String(decoding: bytes, as: UTF8.self) }
                bytes += chunk[..<count]
            }
        }

        func remove() {
            for file in [input, output, error] { unlink(file) }
            rmdir(folder)
        }
    }
}

extension Subprocess {
    static func write(_ text: String, to path: String) throws {
        guard let file = fopen(path, "w") else { throw Failure(message: "no file") }
        defer { fclose(file) }
        let bytes = Array(text.utf8)
        guard fwrite(bytes, 1, bytes.count, file) == bytes.count else { throw Failure(message: "no space") }
    }
}
