#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Runs other programs, without Foundation, so that signals and exit codes are seen as the system tells them.
struct Subprocess {
    struct Result {
        var status: Int32
        var output: String
        var error: String
    }

    struct Failure: Error { var message: String }

    /// Runs a program to its end.
    ///
    /// - Parameter started: Called with the process's number when it runs.
    static func run(
        _ program: String,
        _ arguments: [String],
        input: String = "",
        started: (pid_t) -> Void = { _ in }
    ) throws -> Result {
        let files = try Files()
        defer { files.remove() }
        try write(input, to: files.input)
        #if canImport(Glibc)
            var actions = posix_spawn_file_actions_t()
        #else
            var actions: posix_spawn_file_actions_t?
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, files.input, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, files.output, O_WRONLY | O_CREAT, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, files.error, O_WRONLY | O_CREAT, 0o600)
        var argv = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var pid = pid_t()
        let code = posix_spawnp(&pid, program, &actions, nil, &argv, environ)
        guard code == 0 else { throw Failure(message: "\(program): \(String(cString: strerror(code)))") }
        started(pid)
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        let signal = status & 0x7f
        return Result(
            status: signal == 0 ? (status >> 8) & 0xff : 128 + signal,
            output: files.read(files.output),
            error: files.read(files.error)
        )
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
