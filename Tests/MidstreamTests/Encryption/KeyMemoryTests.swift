#if os(Linux)
    import Midstream
    import SQLiteC
    import Synchronization
    import Testing

    @testable import SQLiteConnection

    /// What is left of keys in memory.
    @Suite(.enabled(if: Connection.canEncrypt)) struct KeyMemoryTests {
        @Test func nothingOfAKeyIsLeftWhenTheDatabaseIsClosed() async {
            // The test runs in a process of its own, since other tests would write its memory meanwhile.
            await #expect(processExitsWith: .success) { try KeyMemoryTests.openMoveAndClose() }
        }

        private static func openMoveAndClose() throws {
            let folder = TemporaryFolder()
            let passphrases = [MaskedSecret(count: 40), MaskedSecret(count: 37)]
            try makeSource(folder, passphrases[1])
            let patterns = try move(folder, passphrases)
            let left = ProcessMemory.count(patterns.map { ($0.count, $0.byte) })
            for (pattern, count) in zip(patterns, left) {
                #expect(count == 0, "\(pattern.name)")
            }
        }

        private static func makeSource(_ folder: TemporaryFolder, _ passphrase: MaskedSecret) throws {
            let old = try Connection(path: folder.file("old.db"), options: OpenOptions(key: key(passphrase)))
            try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            try old.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO t SELECT i, i FROM n"
            )
            old.close()
        }

        private static func key(_ passphrase: MaskedSecret) -> EncryptionKey {
            var settings = CipherSettings()
            settings.kdfIterations = iterations
            return passphrase.revealed { bytes in
                if passphrase.count % 2 == 0 { return .passphrase(bytes: bytes, settings: settings) }
                // The command reads a passphrase in this way.
                return .passphrase(capacity: 4096, settings: settings) { buffer in
                    buffer.copyMemory(from: UnsafeRawBufferPointer(bytes))
                    return bytes.count
                }
            }
        }

        private static let iterations = 100

        /// Opens, moves and closes.
        ///
        /// - Returns: What must not be found in memory after that.
        private static func move(_ folder: TemporaryFolder, _ passphrases: [MaskedSecret]) throws -> [Pattern] {
            var configuration = DatabaseConfiguration()
            let source = key(passphrases[1])
            configuration.sourceKey = { _ in source }
            let database = try Database(
                path: folder.file("new.db"),
                key: key(passphrases[0]),
                configuration: configuration
            )
            defer { database.close() }
            try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
            try database.addMigration(source: .file(folder.file("old.db"), key: source)) { $0.sourceTable = "t" }
            try database.stepMigration(rows: 100)
            #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 300)

            let keys = [
                try derivedKey(passphrases[0], folder.file("new.db")),
                try derivedKey(passphrases[1], folder.file("old.db")),
            ]
            // This shows that the test can fail: it finds keys that are in use.
            let found = ProcessMemory.count(keys.map { key in (key.count, { key[$0] }) })
            #expect(found.allSatisfy { $0 > 0 })
            let names = ["the target's passphrase", "the source's passphrase", "the target's key", "the source's key"]
            return zip(names, passphrases + keys).flatMap(Pattern.all)
        }

        /// The key that a passphrase gives with the file's salt.
        private static func derivedKey(_ passphrase: MaskedSecret, _ path: String) throws -> MaskedSecret {
            let salt = Array(Files.bytes(path).prefix(16))
            let (iterations, isVersion3) = (iterations, Connection.libraryVersionNumber < 3_025_000)
            let key = passphrase.revealed { bytes in
                KeyDerivation.deriveKey(
                    SecretBytes(bytes),
                    KeyDerivation.Parameters(
                        iterations: iterations,
                        algorithm: isVersion3 ? .sha1 : .sha512,
                        salt: salt
                    )
                )
            }
            return try #require(key).withBytes { MaskedSecret($0) }
        }

        /// While SQLCipher takes a key over, its registers point to the key, and the report of a crash shows that
        /// memory.
        @Test func aPassphraseIsNotGivenToSQLCipher() async {
            await #expect(processExitsWith: .success) { try KeyMemoryTests.countWhileSettingsAreAsked() }
        }

        private static let secret = MaskedSecret(count: 40)
        private static let counts = Mutex<[Int]>([])

        private static func countWhileSettingsAreAsked() throws {
            let trace: @convention(c) (OpaquePointer?, UnsafeRawPointer?, UnsafeRawPointer?) -> Int32 = { db, _, _ in
                sqlite3_trace_v2(
                    db,
                    UInt32(SQLITE_TRACE_STMT),
                    { _, _, statement, _ in
                        guard let sql = sqlite3_sql(OpaquePointer(statement)) else { return 0 }
                        // The pragma comes after a first key, and before the last.
                        if String(cString: sql).hasSuffix(".kdf_iter") {
                            let secret = KeyMemoryTests.secret
                            let found = ProcessMemory.count([(secret.count, { secret[$0] })])
                            KeyMemoryTests.counts.withLock { $0 += found }
                        }
                        return 0
                    },
                    nil
                )
            }
            sqlite3_auto_extension(unsafeBitCast(trace, to: (@convention(c) () -> Void).self))
            let folder = TemporaryFolder()
            let key = EncryptionKey.passphrase(capacity: secret.count) { buffer in
                for index in 0..<secret.count { buffer[index] = secret[index] }
                return secret.count
            }
            let connection = try Connection(path: folder.file("new.db"), options: OpenOptions(key: key))
            try connection.execute("CREATE TABLE t(x)")
            // The one copy is the key's own.
            #expect(counts.withLock { $0 } == [1])
            connection.close()
        }
    }

    /// A secret, or a part of it, in one of the forms in which it could be found.
    private struct Pattern {
        var name: String
        var count: Int
        var byte: (Int) -> UInt8

        static func all(_ name: String, _ secret: MaskedSecret) -> [Pattern] {
            [
                Pattern(name: name, count: secret.count) { secret[$0] },
                Pattern(name: name + ", its first half", count: 16) { secret[$0] },
                Pattern(name: name + ", its second half", count: 16) { secret[16 + $0] },
                Pattern(name: name + " as hexadecimal digits", count: 2 * secret.count) { digit($0, secret, 0x61) },
                Pattern(name: name + " as large hexadecimal digits", count: 2 * secret.count) {
                    digit($0, secret, 0x41)
                },
            ]
        }

        private static func digit(_ index: Int, _ secret: MaskedSecret, _ a: UInt8) -> UInt8 {
            let value = index % 2 == 0 ? secret[index / 2] >> 4 : secret[index / 2] & 15
            return value < 10 ? 0x30 + value : a + value - 10
        }
    }
#endif
