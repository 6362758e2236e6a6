#if os(Linux)
    import Glibc
    import Midstream
    import SQLiteC
    import Synchronization
    import Testing

    @testable import SQLiteConnection

    /// What SQLite tells its listeners: tracers, profilers and its error log.
    @Suite(.enabled(if: Connection.canEncrypt)) struct KeyTraceTests {
        @Test func noTraceAndNoLogShowsAKey() async {
            // The test runs in a process of its own, since listeners hear all connections of a process.
            await #expect(processExitsWith: .success) { try KeyTraceTests.listenToAMove() }
        }

        private static let target = TestKeys.cheap("Target-Needle-9f3") { _ in }
        private static let source = TestKeys.cheap("Source-Needle-7c1") { _ in }
        private static let raw = EncryptionKey.raw([UInt8](0x61..<0x81), salt: [UInt8](0x41..<0x51))

        private static func listenToAMove() throws {
            listenToTheLog()
            sqlite3_auto_extension(unsafeBitCast(listenToConnection, to: (@convention(c) () -> Void).self))
            let folder = TemporaryFolder()
            try EncryptedMigrationTests.pair(source, folder)
            let database = try EncryptedMigrationTests.open(folder, target, source)
            try database.stepMigration(rows: 10)
            _ = try database.fetchAll("SELECT * FROM t WHERE id > ?", [5])
            try? database.execute("SELECT broken")
            for body in [
                { _ = try Database(path: folder.file("new.db"), key: source) },
                { _ = try Database(path: folder.file("old.db"), key: raw) },
            ] as [() throws -> Void] {
                #expect(throws: (any Error).self) { try body() }
            }
            let other = try Database(path: folder.file("raw.db"), key: raw)
            try other.execute("CREATE TABLE t(x)")
            other.close()
            while try !database.stepMigration(rows: 100).isFinished {}
            database.close()

            let heard = Self.heard.withLock { $0 }
            // This shows that the listeners listen.
            #expect(heard.contains("broken"))
            #expect(heard.contains("INSERT INTO"))
            #expect(heard.contains("profile"))
            let keys =
                [Array("Target-Needle-9f3".utf8), Array("Source-Needle-7c1".utf8), [UInt8](0x61..<0x81)]
                + [try derived("Target-Needle-9f3", folder.file("new.db"))]
                + [try derived("Source-Needle-7c1", folder.file("old.db"))]
            for key in keys {
                let hex = key.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
                for form in [String(decoding: key, as: UTF8.self), hex, hex.uppercased()] {
                    #expect(!heard.contains(form))
                }
            }
        }

        /// The key that a passphrase gives with the file's salt.
        private static func derived(_ passphrase: String, _ path: String) throws -> [UInt8] {
            let algorithm: CipherSettings.KDFAlgorithm = Connection.libraryVersionNumber < 3_025_000 ? .sha1 : .sha512
            let salt = Array(Files.bytes(path).prefix(16))
            let parameters = KeyDerivation.Parameters(iterations: 10, algorithm: algorithm, salt: salt)
            let secret = Array(passphrase.utf8).withUnsafeBytes { SecretBytes($0) }
            return try #require(KeyDerivation.deriveKey(secret, parameters)).withBytes { Array($0) }
        }

        // MARK: Listeners

        private static let heard = Mutex("")

        private static func hear(_ text: UnsafePointer<CChar>?) {
            guard let text else { return }
            let line = String(cString: text) + "\n"
            heard.withLock { $0 += line }
        }

        private typealias Entry =
            @convention(c) (OpaquePointer?, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, OpaquePointer?) ->
            Int32

        /// Called by SQLite for each connection that is opened.
        private static let listenToConnection: Entry = { db, _, _ in
            let kinds = UInt32(SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE)
            return sqlite3_trace_v2(
                db,
                kinds,
                { kind, _, statement, text in
                    let statement = OpaquePointer(statement)
                    if kind == UInt32(SQLITE_TRACE_STMT) {
                        KeyTraceTests.hear(text?.assumingMemoryBound(to: CChar.self))
                    } else {
                        KeyTraceTests.heard.withLock { $0 += "profile " }
                    }
                    KeyTraceTests.hear(sqlite3_sql(statement))
                    let expanded = sqlite3_expanded_sql(statement)
                    KeyTraceTests.hear(expanded)
                    sqlite3_free(expanded)
                    return 0
                },
                nil
            )
        }

        private typealias Log = @convention(c) (UnsafeMutableRawPointer?, Int32, UnsafePointer<CChar>?) -> Void
        private typealias Configure = @convention(c) (Int32, Log, UnsafeMutableRawPointer?) -> Int32

        /// Registers a listener of the error log. `sqlite3_config` has variable arguments, which Swift cannot pass; on
        /// Linux they are passed as others are.
        private static func listenToTheLog() {
            let address = dlsym(UnsafeMutableRawPointer(bitPattern: 0), "sqlite3_config")
            let log: Log = { _, _, text in KeyTraceTests.hear(text) }
            // The test's process may already have begun to use SQLite.
            sqlite3_shutdown()
            let code = unsafeBitCast(address, to: Configure.self)(SQLITE_CONFIG_LOG, log, nil)
            #expect(code == SQLITE_OK)
        }
    }
#endif
