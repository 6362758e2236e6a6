internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// What the figures depend on, besides the code.
enum Machine {
    static var cores: Int { Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    static var processor: String {
        #if canImport(Darwin)
            var size = 0
            sysctlbyname("machdep.cpu.brand_string", nil, &size, nil, 0)
            var name = [UInt8](repeating: 0, count: max(size, 1))
            sysctlbyname("machdep.cpu.brand_string", &name, &size, nil, 0)
            return String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
        #else
            return field("model name", of: "/proc/cpuinfo") ?? "unknown processor"
        #endif
    }

    /// The version of the linked SQLite.
    static var sqliteVersion: String {
        let number = Connection.libraryVersionNumber
        return "\(number / 1_000_000).\(number / 1000 % 1000).\(number % 1000)"
    }

    /// The time since some moment in the past, in seconds.
    static var time: Double { seconds(CLOCK_MONOTONIC) }

    /// The processor time that this process has used, in seconds.
    static var processorTime: Double { seconds(CLOCK_PROCESS_CPUTIME_ID) }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }

    /// Does nothing for the given number of seconds.
    static func rest(_ seconds: Double) { usleep(useconds_t(seconds * 1e6)) }

    /// The largest amount of memory that this process has had, in bytes.
    static var peakMemory: Int64 {
        #if canImport(Darwin)
            var usage = rusage()
            getrusage(RUSAGE_SELF, &usage)
            return Int64(usage.ru_maxrss)
        #else
            // This does not ask getrusage(2): a process inherits that maximum from the one that started it.
            let text = field("VmHWM", of: "/proc/self/status") ?? ""
            return (Int64(text.prefix { $0.isNumber }) ?? 0) * 1024
        #endif
    }

    /// The value in the first line `name: value` of a file.
    private static func field(_ name: String, of path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var buffer = [CChar](repeating: 0, count: 4096)
        while fgets(&buffer, Int32(buffer.count), file) != nil {
            let line = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            guard line.hasPrefix(name), let colon = line.firstIndex(of: ":") else { continue }
            return String(line[line.index(after: colon)...].drop { $0.isWhitespace }.prefix { !$0.isNewline })
        }
        return nil
    }
}
