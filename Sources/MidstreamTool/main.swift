#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

exit(Tool.run(Array(CommandLine.arguments.dropFirst())).status)
