#if os(Linux)
    import Glibc
    import Midstream
    import Testing

    @testable import SQLiteConnection

    /// What the report of a crash shows of keys that are in use.
    @Suite(
        .serialized,
        .enabled(if: Connection.canEncrypt),
        .enabled(if: CrashReport.isAvailable, "swift-backtrace is not found beside Swift's library")
    )
    struct KeyCrashTests {
        /// How a process dies.
        enum Death: CaseIterable, Codable {
            case trap, badPointer, abort

            func die() -> Never {
                switch self {
                case .trap: fatalError("as told")
                case .badPointer:
                    UnsafeMutablePointer<Int>(bitPattern: 8)?.pointee = 1
                    fatalError("there is nothing at 8")
                case .abort: Glibc.abort()
                }
            }
        }

        /// When it dies.
        enum Moment: CaseIterable, Codable {
            /// The database asks for the source's key.
            case whileAsked
            /// A block has read and written, and rows have moved.
            case inABlock
            /// SQLite calls a function while it reads an encrypted file.
            case inAFunction
            /// The database has been closed.
            case afterClosing
        }

        @Test(arguments: Death.allCases, Moment.allCases)
        func theReportOfACrashShowsNoKey(_ death: Death, _ moment: Moment) async throws {
            let folder = TemporaryFolder()
            let report = try await CrashReport.inFull {
                await #expect(processExitsWith: .failure, observing: CrashReport.observed) {
                    [path = folder.path as String, death, moment] in
                    try KeyCrashTests.crash(path, death, moment)
                }
            }
            for (name, secret) in try Self.secrets(folder.path) {
                #expect(report.line(showing: secret) == nil, "\(name)")
            }
        }

        private static func crash(_ path: String, _ death: Death, _ moment: Moment) throws {
            let old = try Connection(path: path + "/old.db", options: OpenOptions(key: key(.source)))
            try old.createFunction("crash", argumentCount: 1) { arguments, _ in
                if arguments[0].int64 == 200 { death.die() }
            }
            try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            try old.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO t SELECT i, i FROM n"
            )
            if moment == .inAFunction { try old.execute("UPDATE t SET x = crash(id)") }
            old.close()
            let raw = try Connection(path: path + "/raw.db", options: OpenOptions(key: key(.raw)))
            try raw.execute("CREATE TABLE t(x)")

            var configuration = DatabaseConfiguration()
            configuration.sourceKey = { _ in
                let key = key(.source)
                if moment == .whileAsked { death.die() }
                return key
            }
            // The process dies when the database asks for the source's key for the second time.
            for _ in 0..<2 {
                let database = try Database(path: path + "/new.db", key: key(.target), configuration: configuration)
                try database.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x)")
                try database.addMigration(source: .file(path + "/old.db", key: key(.source))) { $0.sourceTable = "t" }
                try database.stepMigration(rows: 100)
                try database.write { access in
                    try access.execute("UPDATE t SET x = x + 1 WHERE id % 50 = 0")
                    _ = try access.fetchAll("SELECT * FROM t ORDER BY x")
                    if moment == .inABlock { death.die() }
                }
                database.close()
            }
            raw.close()
            death.die()
        }

        /// Deriving a key takes a while, and another thread may crash meanwhile.
        @Test(arguments: [CipherSettings.KDFAlgorithm.sha1, .sha256, .sha512])
        func theReportOfACrashShowsNoPassphraseThatAKeyIsDerivedFrom(_ algorithm: CipherSettings.KDFAlgorithm)
            async throws
        {
            let report = try await CrashReport.inFull {
                await #expect(processExitsWith: .failure, observing: CrashReport.observed) {
                    [name = algorithm.rawValue as String] in
                    let algorithm = try #require(CipherSettings.KDFAlgorithm(rawValue: name))
                    let salt = [UInt8](repeating: 0, count: 16)
                    // This takes seconds.
                    let parameters = KeyDerivation.Parameters(iterations: 10_000_000, algorithm: algorithm, salt: salt)
                    let threads = Threads()
                    for secret in [Secret.source, .target] {
                        threads.start("\(secret)") { _ in
                            _ = KeyDerivation.deriveKey(KeyCrashTests.key(secret).secret, parameters)
                        }
                    }
                    usleep(100_000)
                    Death.abort.die()
                }
            }
            for secret in [Secret.source, .target] { #expect(report.line(showing: secret.bytes) == nil, "\(secret)") }
        }

        /// The search finds what a register points to.
        @Test func theReportOfACrashShowsWhatACallWasGiven() async throws {
            let report = try await CrashReport.inFull {
                await #expect(processExitsWith: .failure, observing: CrashReport.observed) {
                    var ends: [Int32] = [0, 0]
                    pipe(&ends)
                    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 16)
                    Secret.target.write(into: buffer)
                    let (input, address) = (ends[0], UInt(bitPattern: buffer.baseAddress))
                    Threads().start("waits") { _ in read(input, UnsafeMutableRawPointer(bitPattern: address), 64) }
                    usleep(100_000)
                    Death.abort.die()
                }
            }
            #expect(report.line(showing: Secret.target.bytes) != nil)
            #expect(report.line(showing: Secret.source.bytes) == nil)
        }

        // MARK: Keys

        private enum Secret: UInt64, CaseIterable {
            case target = 1
            case source = 2
            case raw = 3

            var count: Int { self == .raw ? 32 : 40 }

            /// The bytes are letters, so that they would be seen in text as well.
            func write(into buffer: UnsafeMutableRawBufferPointer) {
                var random = SeededGenerator(seed: rawValue)
                for index in 0..<count { buffer[index] = UInt8.random(in: 0x61...0x7a, using: &random) }
            }

            var bytes: [UInt8] {
                Array(unsafeUninitializedCapacity: count) { bytes, length in
                    write(into: UnsafeMutableRawBufferPointer(bytes))
                    length = count
                }
            }
        }

        private static let iterations = 10

        /// The key of a file. If it is a passphrase, nothing is left of the bytes from which it was made.
        private static func key(_ secret: Secret) -> EncryptionKey {
            if secret == .raw { return .raw(secret.bytes) }
            var settings = CipherSettings()
            settings.kdfIterations = iterations
            return .passphrase(capacity: secret.count, settings: settings) { buffer in
                secret.write(into: buffer)
                return secret.count
            }
        }

        /// Passphrases, a raw key, and the keys that were derived for the files in the folder.
        private static func secrets(_ path: String) throws -> [(name: String, bytes: [UInt8])] {
            let files = [("new.db", Secret.target), ("old.db", .source)].filter { Files.exists(path + "/" + $0.0) }
            return try Secret.allCases.map { (name: "\($0)", bytes: $0.bytes) }
                + files.map { name, secret in
                    (name: "the key of \(name)", bytes: try derived(secret, path + "/" + name))
                }
        }

        /// The key that a passphrase gives with the file's salt.
        private static func derived(_ secret: Secret, _ path: String) throws -> [UInt8] {
            let algorithm: CipherSettings.KDFAlgorithm = Connection.libraryVersionNumber < 3_025_000 ? .sha1 : .sha512
            let salt = Array(Files.bytes(path).prefix(16))
            let parameters = KeyDerivation.Parameters(iterations: iterations, algorithm: algorithm, salt: salt)
            return try #require(KeyDerivation.deriveKey(SecretBytes(secret.bytes), parameters)).withBytes { Array($0) }
        }
    }
#endif
