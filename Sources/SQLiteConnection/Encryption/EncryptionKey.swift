/// The key of an encrypted file, and how SQLCipher uses it.
///
///     let key = EncryptionKey.passphrase("correct horse battery staple")
///     let old = EncryptionKey.passphrase("1234", settings: CipherSettings(compatibility: 3))
///
/// The key does not describe itself: printing it, in a debugger or a log, shows nothing of the key. Its bytes are
/// overwritten when the last copy is gone. The `String` or array from which it was made is the caller's to wipe.
public struct EncryptionKey: Sendable {
    enum Kind {
        /// The key is stretched by SQLCipher's key derivation function.
        case passphrase
        /// The key is used as it is.
        case raw
    }

    let kind: Kind
    let secret: SecretBytes
    /// The salt that was given with a raw key.
    let salt: [UInt8]?
    /// How the file is encrypted.
    public var settings: CipherSettings

    private init(_ kind: Kind, _ secret: SecretBytes, _ salt: [UInt8]?, _ settings: CipherSettings) {
        self.kind = kind
        self.secret = secret
        self.salt = salt
        self.settings = settings
    }

    /// A passphrase, from which SQLCipher derives the key with the file's salt.
    ///
    /// As everywhere in SQLCipher, text of the form `x'…'` with 64 or 96 hexadecimal digits is a raw key.
    ///
    /// - Parameters:
    ///   - passphrase: Text, not empty.
    ///   - settings: How the file is encrypted, if not by the library's default.
    public static func passphrase(_ passphrase: String, settings: CipherSettings = CipherSettings()) -> EncryptionKey {
        EncryptionKey(.passphrase, SecretBytes(passphrase.utf8), nil, settings)
    }

    /// A passphrase as bytes.
    ///
    /// - Parameters:
    ///   - passphrase: One byte or more.
    ///   - settings: How the file is encrypted, if not by the library's default.
    public static func passphrase(
        bytes passphrase: some Collection<UInt8>,
        settings: CipherSettings = CipherSettings()
    ) -> EncryptionKey {
        EncryptionKey(.passphrase, SecretBytes(passphrase), nil, settings)
    }

    /// A passphrase that is read in place, so that no copy of it is left elsewhere.
    ///
    /// - Parameters:
    ///   - capacity: The most bytes that `read` may write.
    ///   - read: Writes the passphrase at the buffer's beginning, and returns its length. The buffer is wiped
    ///     afterwards.
    package static func passphrase(
        capacity: Int,
        settings: CipherSettings = CipherSettings(),
        readingWith read: (UnsafeMutableRawBufferPointer) throws -> Int
    ) rethrows -> EncryptionKey {
        EncryptionKey(.passphrase, try SecretBytes(capacity: capacity, read), nil, settings)
    }

    /// The raw key itself.
    ///
    /// - Parameters:
    ///   - key: 32 bytes.
    ///   - salt: The file's salt, 16 bytes; `nil` for the salt that is in the file, or for a new one.
    ///   - settings: How the file is encrypted, if not by the library's default.
    public static func raw(
        _ key: some Collection<UInt8>,
        salt: [UInt8]? = nil,
        settings: CipherSettings = CipherSettings()
    ) -> EncryptionKey {
        EncryptionKey(.raw, SecretBytes(key), salt, settings)
    }

    /// - Throws: ``SQLiteError`` if the key or a setting cannot be used.
    func validate() throws(SQLiteError) {
        func fail(_ message: String) throws(SQLiteError) -> Never {
            throw SQLiteError(code: .misuse, message: message)
        }
        switch kind {
        case .passphrase where secret.count == 0: try fail("the passphrase is empty")
        case .raw where secret.count != 32: try fail("a raw key has 32 bytes, not \(secret.count)")
        default: break
        }
        for salt in [salt, settings.salt].compactMap({ $0 }) where salt.count != 16 {
            try fail("a salt has 16 bytes, not \(salt.count)")
        }
        if let version = settings.compatibility, !(1...4).contains(version) {
            try fail("there is no SQLCipher \(version) to be compatible with: 1 to 4")
        }
        if let size = settings.pageSize, !(512...65536).contains(size) || size.nonzeroBitCount != 1 {
            try fail("a page has a power of 2 from 512 to 65536 bytes, not \(size)")
        }
        if let iterations = settings.kdfIterations, iterations < 1 {
            try fail("a key is derived by 1 iteration or more")
        }
        if let size = settings.plaintextHeaderSize, size != 0 {
            if size < 0 || size > 96 || size % 16 != 0 {
                try fail("a plaintext header has a multiple of 16 bytes up to 96, not \(size)")
            }
            if salt == nil, settings.salt == nil {
                try fail("with a plaintext header the file does not hold its salt: give it, 16 bytes")
            }
        }
    }
}

extension EncryptionKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A text that shows nothing of the key.
    public var description: String { "EncryptionKey(…)" }
    /// A text that shows nothing of the key.
    public var debugDescription: String { description }
    /// A mirror that shows nothing of the key.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
