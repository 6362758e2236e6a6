import SQLiteConnection
import Testing

@testable import MidstreamTool

/// The options for keys and ciphers, with a library that encrypts and with one that does not.
@Suite struct KeyArgumentTests {
    private func parse(_ arguments: String...) throws -> KeyArguments {
        try KeyArguments(ParsedArguments(["new.db"] + arguments, for: MigrateCommand.spec), command: "migrate")
    }

    @Test func eachFileHasItsKey() throws {
        let keys = try parse(
            "--source-key-file",
            "a",
            "--target-key-env=B",
            "--target-cipher=compatibility=3,hmac=sha1"
        )
        #expect(keys.source?.origin == .file("a"))
        #expect(keys.source?.settings == CipherSettings())
        #expect(keys.target?.origin == .environment("B"))
        #expect(keys.target?.settings.compatibility == 3)
        #expect(keys.target?.settings.hmacAlgorithm == .sha1)
        #expect(try parse("--source-key-ask").source?.origin == .terminal)
        let none = try parse()
        #expect(none.source == nil && none.target == nil)
    }

    @Test func allSettingsOfTheCipherAreRead() throws {
        var settings = CipherSettings(compatibility: 4)
        settings.pageSize = 8192
        settings.kdfIterations = 1000
        settings.kdfAlgorithm = .sha256
        settings.hmacAlgorithm = CipherSettings.HMACAlgorithm.none
        settings.plaintextHeaderSize = 32
        settings.salt = (0..<16).map { $0 * 17 }
        let text =
            "compatibility=4,page-size=8192,kdf-iterations=1000,kdf-algorithm=sha256,hmac=none,plaintext-header=32,"
            + "salt=00112233445566778899aabbccddeeFF"
        #expect(try CipherText.parse(text) == settings)
    }

    @Test func settingsThatCannotBeAreNamedWithoutTheirValues() {
        let cases = [
            ("compatibility=5", "compatibility"), ("compatibility=1234567x", "compatibility"),
            ("page-size=1000", "page-size"), ("page-size=256", "page-size"), ("kdf-iterations=0", "kdf-iterations"),
            ("kdf-iterations=12345678901", "kdf-iterations"), ("kdf-iterations=", "kdf-iterations"),
            ("kdf-algorithm=secret", "sha512"), ("hmac=secret", "none"), ("plaintext-header=20", "plaintext-header"),
            ("plaintext-header=32", "salt"), ("salt=secret", "32"), ("salt=é0112233445566778899aabbccddee", "32"),
            ("secret", "NAME=VALUE"), ("secret=1", "NAME=VALUE"), ("", "NAME=VALUE"), ("hmac=none,", "NAME=VALUE"),
        ]
        for (text, part) in cases {
            let error = #expect(throws: CipherText.Problem.self, "\(text)") { try CipherText.parse(text) }
            #expect(error?.message.contains(part) == true, "\(text)")
            for value in ["secret", "1234567", "1000"] {
                #expect(error?.message.contains(value) == false, "\(text)")
            }
        }
    }

    @Test func aCipherNeedsAKeyAndAKeyOneOrigin() {
        for arguments in [
            ["--source-cipher=hmac=none"], ["--source-key-env=a", "--target-cipher=hmac=none"],
            ["--source-key-env=a", "--source-key-file=b"], ["--target-key-ask", "--target-key-file=b"],
            ["--source-key-env="], ["--source-key-file", "a", "--source-cipher=hmac"],
        ] {
            let error = #expect(throws: UsageError.self, "\(arguments)") {
                try KeyArguments(ParsedArguments(arguments, for: MigrateCommand.spec), command: "migrate")
            }
            #expect(error?.command == "migrate")
        }
    }

    @Test(.enabled(if: !Connection.canEncrypt)) func aLibraryThatDoesNotEncryptSaysSoAndMakesNoFile() throws {
        let folder = TestFolder()
        let old = try folder.database("old.db", messages(10))
        for arguments in [
            ["encrypt", old, folder.file("new.db"), "--target-key-env", "MIDSTREAM_TEST_KEY"],
            ["decrypt", old, folder.file("new.db"), "--source-key-env", "MIDSTREAM_TEST_KEY"],
            ["migrate", "--source", old, folder.file("new.db"), "--all-tables", "--target-key-ask"],
            ["sql", folder.file("new.db"), "--target-key-env", "MIDSTREAM_TEST_KEY"],
        ] {
            let result = try Subprocess.run(BuiltTool.path, arguments, environment: ["MIDSTREAM_TEST_KEY": "secret"])
            #expect(result.status == 1)
            #expect(result.error.hasSuffix("does not encrypt: build with the package trait SQLCipher\n"))
            #expect(!result.error.contains("secret"))
        }
        #expect(folder.names == ["old.db"])
    }

    /// Two copies of SQLite in one process get at each other's files and structures.
    @Test func aProcessWithTwoSQLitesRefusesToWork() throws {
        let other = Connection.canEncrypt ? "libsqlite3.so.0" : "libsqlcipher.so.0"
        let probe = try? Subprocess.run("/bin/true", [], environment: ["LD_PRELOAD": other])
        guard let probe, probe.status == 0, probe.error.isEmpty else {
            print("\(other) is not installed, so it is not loaded beside the other")
            return
        }
        #if os(Linux)
            let folder = TestFolder()
            let file = try folder.database("a.db", "CREATE TABLE t(x)")
            let result = try BuiltTool.run("status", file, environment: ["LD_PRELOAD": other])
            #expect(result.status == 1)
            #expect(result.output.isEmpty)
            #expect(result.error.contains("this build is made for SQL"))
            #expect(result.error.contains("link only one SQLite"))
        #endif
    }
}
