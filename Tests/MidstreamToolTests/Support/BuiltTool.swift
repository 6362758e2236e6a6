#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The executables that were built together with the tests.
enum BuiltTool {
    static let path = path(of: "midstream")

    static func path(of name: String) -> String {
        // One of the arguments is the test bundle, or on macOS a file in it. The bundle's folder has the executable.
        var candidates = CommandLine.arguments
        if let own = realpath("/proc/self/exe", nil) {
            candidates.append(String(cString: own))
            free(own)
        }
        for candidate in candidates {
            var folder = candidate
            while let slash = folder.lastIndex(of: "/") {
                folder = String(folder[..<slash])
                let tool = folder + "/" + name
                var status = stat()
                if stat(tool, &status) == 0, status.st_mode & S_IFMT == S_IFREG, access(tool, X_OK) == 0 { return tool }
            }
        }
        return name
    }

    static func run(
        _ arguments: String...,
        input: String = "",
        environment: [String: String] = [:],
        started: (pid_t) -> Void = { _ in }
    ) throws -> Subprocess.Result {
        try Subprocess.run(path, arguments, input: input, environment: environment, started: started)
    }
}
