#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What a process can do that may not write the files of somebody else. For exit tests only, since this changes the
/// whole process.
enum Unprivileged {
    private static let nobody: uid_t = 65534

    /// Gives up root's rights, which no file permission stops. The folder stays writable.
    static func begin(in folder: String) {
        chmod(folder, 0o777)
        if geteuid() == 0 { seteuid(nobody) }
    }

    /// Runs `body` with the rights with which the process began.
    static func asOwner<Result>(_ body: () throws -> Result) rethrows -> Result {
        let user = geteuid()
        if getuid() == 0 { seteuid(0) }
        defer { if getuid() == 0 { seteuid(user) } }
        return try body()
    }
}
