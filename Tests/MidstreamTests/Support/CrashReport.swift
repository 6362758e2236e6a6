#if os(Linux)
    import Testing

    #if canImport(Glibc)
        import Glibc
    #else
        import Musl
    #endif

    /// What a process that crashed has written, with the report of Swift's backtracer: the registers of all threads, and
    /// the memory that they point to.
    struct CrashReport {
        /// Ends with a 0, and contains no other 0.
        private let bytes: [CChar]

        init(_ process: ExitTest.Result) {
            let written = process.standardOutputContent + process.standardErrorContent
            bytes = written.map { $0 == 0 ? 0x20 : CChar(bitPattern: $0) } + [0]
        }

        private var hasRegisters: Bool {
            #if arch(x86_64)
                strstr(bytes, "\nrip 0x") != nil
            #else
                strstr(bytes, " pc 0x") != nil
            #endif
        }

        // MARK: Searching

        /// The line that shows a part of the secret, or of its hexadecimal digits; `nil` if no line does.
        func line(showing secret: [UInt8]) -> String? {
            // A part of less than six bytes would be found by chance.
            line(showingAnyOf: secret, 6) ?? line(showingAnyOf: Array(Self.digits(secret).joined().utf8), 12)
        }

        private func line(showingAnyOf secret: [UInt8], _ window: Int) -> String? {
            (0...(secret.count - window)).lazy.compactMap { line(showing: secret[$0..<($0 + window)]) }.first
        }

        /// Looks for the part as text, as digits, as a dump of memory has it, and as the value of a register.
        private func line(showing part: ArraySlice<UInt8>) -> String? {
            let digits = Self.digits(Array(part))
            let texts = [
                digits.joined(), digits.joined().uppercased(), digits.joined(separator: " "),
                digits.reversed().joined(),
            ]
            return ([Array(part)] + texts.map { Array($0.utf8) }).lazy.compactMap(line(with:)).first
        }

        private static func digits(_ bytes: [UInt8]) -> [String] {
            bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        }

        /// The line that has the bytes. The bytes that are looked for have no zeros.
        private func line(with part: [UInt8]) -> String? {
            guard !part.contains(0) else { return nil }
            return bytes.withUnsafeBufferPointer { bytes in
                guard let start = bytes.baseAddress, let found = strstr(start, part.map { CChar(bitPattern: $0) } + [0])
                else {
                    return nil
                }
                let lineStart = bytes[..<(UnsafePointer(found) - start)].lastIndex(of: 10) ?? 0
                let line = bytes[lineStart...].dropFirst().prefix { $0 != 10 && $0 != 0 }
                return String(decoding: line.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            }
        }

        // MARK: Settings

        /// Whether Swift has its backtracer beside the library with which the process runs.
        static let isAvailable: Bool = {
            guard let file = fopen("/proc/self/maps", "r") else { return false }
            defer { fclose(file) }
            var line = [CChar](repeating: 0, count: 4096)
            while fgets(&line, Int32(line.count), file) != nil {
                // …/usr/lib/swift/linux/libswiftCore.so, and …/usr/libexec/swift/linux/swift-backtrace
                let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                guard let start = text.firstIndex(of: "/"), text.hasSuffix("/libswiftCore.so\n") else { continue }
                let root = text[start...].split(separator: "/", omittingEmptySubsequences: false).dropLast(4)
                return access(root.joined(separator: "/") + "/libexec/swift/linux/swift-backtrace", X_OK) == 0
            }
            return false
        }()

        /// The results of the process that are to be observed.
        static var observed: [any PartialKeyPath<ExitTest.Result> & Sendable] {
            [\.standardOutputContent, \.standardErrorContent]
        }

        /// Runs `body`, which runs a process to its crash, with the backtracer told to show all that it can.
        static func inFull(_ body: () async throws -> ExitTest.Result?) async throws -> CrashReport {
            let former = Files.environment("SWIFT_BACKTRACE")
            // The preset means all threads.
            let settings =
                "enable=yes,preset=full,registers=all,limit=none,images=all,sanitize=no,interactive=no,color=no"
            setenv("SWIFT_BACKTRACE", settings, 1)
            defer { if let former { setenv("SWIFT_BACKTRACE", former, 1) } else { unsetenv("SWIFT_BACKTRACE") } }
            let report = CrashReport(try #require(try await body()))
            #expect(report.hasRegisters)
            return report
        }
    }
#endif
