import SQLiteC
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@testable import SQLiteConnection

/// Keys of main and of attached files. Tests that encrypt are left out if the linked library does not encrypt.
@Suite(.serialized) struct EncryptionTests {
    static var canEncrypt: Bool { Connection.canEncrypt }
    static var isVersion4: Bool { canEncrypt && Connection.libraryVersionNumber >= 3_025_000 }

    static let keys: [EncryptionKey] = [
        .passphrase("secret"), .passphrase(bytes: [0, 1, 2, 255]), .raw([UInt8](repeating: 7, count: 32)),
        .raw([UInt8](repeating: 7, count: 32), salt: [UInt8](repeating: 9, count: 16)),
        .passphrase("x'\(String(repeating: "ab", count: 32))'"),
        .passphrase("secret", settings: CipherSettings(compatibility: 1)),
        .passphrase("secret", settings: CipherSettings(compatibility: 2)),
        .passphrase("secret", settings: CipherSettings(compatibility: 3)),
        .passphrase("secret", settings: settings { $0.pageSize = 8192 }),
        .passphrase("secret", settings: settings { $0.kdfIterations = 1000 }),
        .passphrase("secret", settings: settings { $0.hmacAlgorithm = CipherSettings.HMACAlgorithm.none }),
    ]

    static let version4Keys: [EncryptionKey] = [
        .passphrase("secret", settings: CipherSettings(compatibility: 4)),
        .passphrase("secret", settings: settings { $0.kdfAlgorithm = .sha256 }),
        .passphrase("secret", settings: settings { $0.hmacAlgorithm = .sha1 }),
        .passphrase(
            "secret",
            settings: settings {
                $0.plaintextHeaderSize = 32
                $0.salt = [UInt8](repeating: 5, count: 16)
            }
        ),
        .raw(
            [UInt8](repeating: 7, count: 32),
            salt: [UInt8](repeating: 5, count: 16),
            settings: settings { $0.plaintextHeaderSize = 32 }
        ),
        .passphrase(
            "x'\(String(repeating: "ab", count: 32))'",
            settings: settings {
                $0.plaintextHeaderSize = 32
                $0.salt = [UInt8](repeating: 5, count: 16)
            }
        ),
    ]

    static func settings(_ body: (inout CipherSettings) -> Void) -> CipherSettings {
        var settings = CipherSettings()
        body(&settings)
        return settings
    }

    static func file(_ key: EncryptionKey?) throws -> TemporaryFile {
        let file = TemporaryFile()
        let connection = try Connection(path: file.path, options: OpenOptions(key: key))
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)")
        try connection.execute("INSERT INTO t VALUES (1, 'a needle in a page'), (2, 'b')")
        return file
    }

    @Test(.enabled(if: canEncrypt), arguments: 0..<(keys.count + (isVersion4 ? version4Keys.count : 0)))
    func aFileIsReadWithItsKeyAsMainAndAttached(_ number: Int) throws {
        let key = (Self.keys + Self.version4Keys)[number]
        let file = try Self.file(key)
        let bytes = try #require(file.bytes())
        #expect(!bytes.contains("needle"))
        #expect(bytes.hasPrefix("SQLite format 3") == (key.settings.plaintextHeaderSize != nil))
        let again = try Connection(path: file.path, options: OpenOptions(key: key))
        #expect(try again.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)

        for main in [nil, .passphrase("of main"), .passphrase("main 1", settings: CipherSettings(compatibility: 1))]
            as [EncryptionKey?]
        {
            let other = try Self.file(main)
            let connection = try Connection(path: other.path, options: OpenOptions(key: main))
            // The row is not in the file yet, but in a WAL. Attaching must not take that WAL for a leftover.
            try again.execute("INSERT INTO t VALUES (NULL, 'c')")
            let expected = try again.fetchValue(Int64.self, "SELECT count(*) FROM t")
            try connection.attach(file.path, as: "s", key: key)
            #expect(try connection.fetchValue(Int64.self, "SELECT count(*) FROM s.t") == expected)
            try connection.execute("INSERT INTO s.t(x) SELECT x FROM main.t")
            #expect(try again.fetchValue(Int64.self, "SELECT count(*) FROM t") == (expected ?? 0) + 2)
            try connection.execute("DETACH s")
            #expect(try connection.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)
        }
        #expect(try again.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
    }

    @Test(.enabled(if: canEncrypt)) func aPlainFileIsAttachedToAnEncryptedOne() throws {
        let (main, other) = (try Self.file(.passphrase("main")), try Self.file(nil))
        let connection = try Connection(path: main.path, options: OpenOptions(key: .passphrase("main")))
        try connection.attach(other.path, as: "s")
        #expect(try connection.fetchValue(Int64.self, "SELECT count(*) FROM s.t") == 2)
    }

    @Test(.enabled(if: canEncrypt)) func whatDoesNotFitSaysSo() throws {
        let (plain, file) = (try Self.file(nil), try Self.file(.passphrase("right")))
        func message(_ path: String, _ key: EncryptionKey?) throws -> String? {
            let opened = #expect(throws: SQLiteError.self) {
                let connection = try Connection(path: path, options: OpenOptions(key: key))
                try connection.checkReadable()
            }
            let main = try Self.file(nil)
            let connection = try Connection(path: main.path)
            let attached = #expect(throws: SQLiteError.self) {
                try connection.attach(path, as: "s", key: key)
            }
            #expect(opened?.message == attached?.message)
            #expect(opened?.code == .notADatabase)
            // Nothing is left behind, and the right key works.
            #expect(try connection.fetchAll("PRAGMA database_list").count == 1)
            let right: EncryptionKey? = path == file.path ? .passphrase("right") : nil
            try connection.attach(path, as: "s", key: right)
            #expect(try connection.fetchValue(Int64.self, "SELECT count(*) FROM s.t") == 2)
            return opened?.message
        }
        #expect(
            try message(file.path, .passphrase("wrong"))
                == "the key or the settings of the cipher do not fit the file, or it is no database"
        )
        #expect(
            try message(file.path, .passphrase("right", settings: Self.settings { $0.pageSize = 512 }))
                == "the key or the settings of the cipher do not fit the file, or it is no database"
        )
        #expect(
            try message(plain.path, .passphrase("right"))
                == "the file is not encrypted, and a key was given: open it without one"
        )
        #expect(try message(file.path, nil) == "the file is encrypted, or is no database: give its key")
    }

    @Test(.enabled(if: canEncrypt && !isVersion4)) func whatTheLibraryDoesNotKnowIsRefused() throws {
        for settings in [
            CipherSettings(compatibility: 4), Self.settings { $0.kdfAlgorithm = .sha512 },
            Self.settings { $0.hmacAlgorithm = .sha256 },
            Self.settings {
                $0.plaintextHeaderSize = 32
                $0.salt = [UInt8](repeating: 5, count: 16)
            },
        ] {
            let error = #expect(throws: SQLiteError.self) {
                _ = try Self.file(.passphrase("secret", settings: settings))
            }
            #expect(error?.code == .misuse)
            #expect(error?.message.contains("does not support this setting of the cipher") == true)
        }
    }

    @Test(.enabled(if: !canEncrypt)) func withoutACodecAKeyIsRefusedBeforeAFileIsMade() throws {
        let file = TemporaryFile()
        let error = #expect(throws: SQLiteError.self) {
            _ = try Connection(path: file.path, options: OpenOptions(key: .passphrase("secret")))
        }
        #expect(error?.message.hasSuffix("does not encrypt: build with the package trait SQLCipher") == true)
        #expect(file.bytes() == nil)
        let connection = try Connection(path: ":memory:")
        #expect(throws: SQLiteError.self) {
            try connection.attach(file.path, as: "s", key: .passphrase("secret"))
        }
        #expect(file.bytes() == nil)
    }

    @Test func keysThatCannotBeAreRefused() {
        let keys: [(EncryptionKey, String)] = [
            (.passphrase(""), "the passphrase is empty"), (.raw([1, 2, 3]), "a raw key has 32 bytes, not 3"),
            (.raw([UInt8](repeating: 0, count: 32), salt: [1]), "a salt has 16 bytes, not 1"),
            (.passphrase("a", settings: Self.settings { $0.pageSize = 1000 }), "a page has"),
            (.passphrase("a", settings: CipherSettings(compatibility: 5)), "there is no SQLCipher 5"),
            (.passphrase("a", settings: Self.settings { $0.kdfIterations = 0 }), "a key is derived by 1"),
            (.passphrase("a", settings: Self.settings { $0.plaintextHeaderSize = 32 }), "with a plaintext header"),
        ]
        for (key, message) in keys {
            let error = #expect(throws: SQLiteError.self) { try key.validate() }
            #expect(error?.message.hasPrefix(message) == true)
        }
    }

    @Test(.enabled(if: canEncrypt)) func aKeyIsDerivedOnceForAllConnections() throws {
        let key = EncryptionKey.passphrase("derived once")
        let file = try Self.file(key)
        let before = KeyCache.derivationCount
        do {
            var connections: [Connection] = []
            for number in 0..<40 {
                if number % 2 == 0 {
                    connections.append(try Connection(path: file.path, options: OpenOptions(key: key)))
                } else {
                    let connection = try Connection(path: ":memory:")
                    try connection.attach(
                        file.path,
                        as: "s",
                        key: .passphrase("derived once")
                    )
                    connections.append(connection)
                }
            }
            #expect(KeyCache.derivationCount == before + 1)
        }
        // The last connection has gone, and the derived key with it.
        _ = try Connection(path: file.path, options: OpenOptions(key: key))
        #expect(KeyCache.derivationCount == before + 2)
    }

    @Test func aKeyShowsNothingOfItself() {
        let key = EncryptionKey.passphrase("needle")
        var dumped = ""
        dump(key, to: &dumped)
        for text in ["\(key)", String(reflecting: key), dumped, "\([key])", "\(OpenOptions(key: key))"] {
            #expect(!text.contains("needle"))
        }
    }
}

/// The path of a database in a folder of its own, which is removed with the object.
final class TemporaryFile {
    private let folder: TemporaryFolder
    let path: String

    init() {
        folder = try! TemporaryFolder()
        path = folder.file("a.db")
    }

    /// The file's bytes, as characters; `nil` if there is no file.
    func bytes() -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        while case let byte = fgetc(file), byte != EOF { bytes.append(UInt8(truncatingIfNeeded: byte)) }
        return String(decoding: bytes, as: Unicode.ASCII.self)
    }
}
