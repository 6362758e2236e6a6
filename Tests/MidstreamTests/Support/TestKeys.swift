import SQLiteConnection

/// Keys for the files of tests: none; if the library encrypts, also keys that cost little to derive.
enum TestKeys {
    static let all: [EncryptionKey?] = Connection.canEncrypt ? [nil] + encrypted : [nil]

    private static let encrypted: [EncryptionKey] = [
        .raw([UInt8](repeating: 0x5a, count: 32)),
        .raw([UInt8](repeating: 0x11, count: 32), salt: [UInt8](repeating: 0x22, count: 16)),
        cheap("a passphrase") { _ in }, cheap("another") { $0.pageSize = 1024 },
        cheap("a third") { $0.hmacAlgorithm = CipherSettings.HMACAlgorithm.none },
    ]

    static func cheap(_ passphrase: String, _ body: (inout CipherSettings) -> Void) -> EncryptionKey {
        var settings = CipherSettings()
        settings.kdfIterations = 10
        body(&settings)
        return .passphrase(passphrase, settings: settings)
    }
}
