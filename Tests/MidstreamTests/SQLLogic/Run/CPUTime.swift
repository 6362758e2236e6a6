#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The time that this process has worked, in seconds: what a record costs, on a machine that does other things, too.
enum CPUTime {
    static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
