internal import SQLiteC

extension Connection {
    /// Whether the linked library encrypts, that is, whether it is SQLCipher.
    public static let canEncrypt = sqlite3_compileoption_used("HAS_CODEC") != 0

    /// The linked library in words, such as `SQLite 3.40.1`.
    private static var library: String {
        (canEncrypt ? "SQLCipher with SQLite " : "SQLite ") + String(cString: sqlite3_libversion())
    }

    /// Makes sure that the SQLite in the process is the one that this build was made for. If a process has two SQLites,
    /// a call reaches now one of them, now the other.
    static func checkLibrary() throws(SQLiteError) {
        let isExpected = canEncrypt == (midstream_expects_codec() != 0)
        guard isExpected, sqlite3_libversion_number() >= SQLITE_VERSION_NUMBER else {
            throw SQLiteError(
                code: .misuse,
                message: "this build is made for \(midstream_expects_codec() != 0 ? "SQLCipher" : "SQLite") with "
                    + "SQLite \(SQLITE_VERSION), and the process has \(library): link only one SQLite"
            )
        }
    }

    // MARK: Keys

    /// Checks a key before a file is touched.
    static func check(_ key: EncryptionKey) throws(SQLiteError) {
        try requireCodec()
        try key.validate()
    }

    /// - Throws: ``SQLiteError`` if the linked library does not encrypt.
    package static func requireCodec() throws(SQLiteError) {
        guard canEncrypt else {
            throw SQLiteError(
                code: .misuse,
                message: "a key was given, and \(library) does not encrypt: build with the package trait SQLCipher"
            )
        }
    }

    /// Keeps SQLCipher 4, for the whole process, from writing to standard error when a key does not fit. The errors
    /// that are thrown say it.
    package static func silenceCipherLog() {
        // The setting is known only to a connection with a codec. SQLCipher 3 has no such log.
        guard canEncrypt, let connection = try? Connection(path: ":memory:") else { return }
        defer { connection.close() }
        try? connection.unlock(schema: "main", with: .raw([UInt8](repeating: 0, count: 32)))
        _ = try? connection.pragma("main", "cipher_log_level", "NONE")
    }

    /// Gives a file its key before anything is read of the file. The key has been checked before.
    func unlock(schema: String, with key: EncryptionKey) throws(SQLiteError) {
        var held = HeldKey(hasPlaintextHeader: key.settings.plaintextHeaderSize ?? 0 > 0)
        defer { heldKeys[schema] = held }
        switch key.kind {
        case .raw:
            let given = key.salt ?? key.settings.salt
            try setKey(schema, Self.keyspec(key.secret, salt: given), key.settings)
        case .passphrase:
            if Self.isKeyspec(key.secret) {
                return try setKey(schema, Self.keyspec(key.secret, withSalt: key.settings.salt), key.settings)
            }
            // This key can be anything, and serves to ask for the settings. While SQLCipher takes a key over, the
            // report of a crash would show the key.
            try setKey(schema, SecretBytes([0x78]), key.settings)
            let iterations = try pragma(schema, "kdf_iter")
            // SQLCipher 3 knows only SHA-1, and has no name for it.
            let algorithm = try pragma(schema, "cipher_kdf_algorithm") ?? CipherSettings.KDFAlgorithm.sha1.rawValue
            guard let iterations = iterations.flatMap({ Int($0) }),
                let algorithm = CipherSettings.KDFAlgorithm(rawValue: algorithm)
            else { return try setKeyToDerive(schema, key) }
            let parameters = KeyDerivation.Parameters(
                iterations: iterations,
                algorithm: algorithm,
                salt: key.salt ?? key.settings.salt ?? header(schema) ?? Self.newSalt()
            )
            guard let derived = KeyCache.key(key.secret, parameters) else { return try setKeyToDerive(schema, key) }
            held.derived = derived
            try setKey(schema, Self.keyspec(derived.secret, salt: parameters.salt), key.settings)
        }
    }

    /// Has SQLCipher derive the key, with the salt that is in the file.
    private func setKeyToDerive(_ schema: String, _ key: EncryptionKey) throws(SQLiteError) {
        if key.salt ?? key.settings.salt != nil { throw unsupported("a salt that is given with a passphrase") }
        try setKey(schema, key.secret, key.settings)
    }

    private func setKey(_ schema: String, _ secret: SecretBytes, _ settings: CipherSettings) throws(SQLiteError) {
        let code = secret.withBytes { bytes in midstream_key(db, schema, bytes.baseAddress, Int32(bytes.count)) }
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
        try apply(settings, schema)
    }

    private static func newSalt() -> [UInt8] {
        var salt = [UInt8](repeating: 0, count: 16)
        salt.withUnsafeMutableBytes { sqlite3_randomness(16, $0.baseAddress) }
        return salt
    }

    /// `x'…'`: the key in hexadecimal digits, and the salt after it.
    private static func keyspec(_ key: SecretBytes, salt: [UInt8]?) -> SecretBytes {
        let digits = Array("0123456789abcdef".utf8)
        let count = 3 + 2 * (key.count + (salt?.count ?? 0))
        return SecretBytes(count: count) { text in
            var next = 0
            func put(_ byte: UInt8) {
                text[next] = byte
                next += 1
            }
            put(UInt8(ascii: "x"))
            put(UInt8(ascii: "'"))
            key.withBytes { bytes in
                for byte in bytes {
                    put(digits[Int(byte >> 4)])
                    put(digits[Int(byte & 15)])
                }
            }
            for byte in salt ?? [] {
                put(digits[Int(byte >> 4)])
                put(digits[Int(byte & 15)])
            }
            put(UInt8(ascii: "'"))
        }
    }

    /// A key in hexadecimal digits, with the salt added unless the key already has one.
    private static func keyspec(_ text: SecretBytes, withSalt salt: [UInt8]?) -> SecretBytes {
        let digitsOfKey = 64
        guard let salt, text.count == 3 + digitsOfKey else { return text }
        return SecretBytes(count: text.count + 2 * salt.count) { bytes in
            text.withBytes { bytes.copyBytes(from: $0.dropLast()) }
            let digits = Array("0123456789abcdef".utf8)
            for (offset, byte) in salt.enumerated() {
                bytes[text.count - 1 + 2 * offset] = digits[Int(byte >> 4)]
                bytes[text.count + 2 * offset] = digits[Int(byte & 15)]
            }
            bytes[bytes.count - 1] = UInt8(ascii: "'")
        }
    }

    private static func isKeyspec(_ passphrase: SecretBytes) -> Bool {
        passphrase.withBytes { bytes in
            guard bytes.count == 67 || bytes.count == 99, bytes[0] | 0x20 == UInt8(ascii: "x"),
                bytes[1] == UInt8(ascii: "'"), bytes[bytes.count - 1] == UInt8(ascii: "'")
            else { return false }
            return bytes[2..<(bytes.count - 1)].allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
        }
    }

    // MARK: Settings

    private func apply(_ settings: CipherSettings, _ schema: String) throws(SQLiteError) {
        if let version = settings.compatibility {
            if isVersion4(schema) {
                try pragma(schema, "cipher_compatibility", "\(version)")
            } else {
                // SQLCipher 3 has the defaults of version 3, and no name for the defaults of other versions.
                if version > 3 { throw unsupported("compatibility with SQLCipher \(version)") }
                if version < 3 { try set(schema, "kdf_iter", "4000") }
                if version < 2 { try set(schema, "cipher_use_hmac", "0") }
            }
        }
        if let size = settings.pageSize { try set(schema, "cipher_page_size", "\(size)") }
        if let iterations = settings.kdfIterations { try set(schema, "kdf_iter", "\(iterations)") }
        if let algorithm = settings.kdfAlgorithm, algorithm != .sha1 || isVersion4(schema) {
            try set(schema, "cipher_kdf_algorithm", algorithm.rawValue)
        }
        switch settings.hmacAlgorithm {
        case nil: break
        case .some(.none): try set(schema, "cipher_use_hmac", "0")
        case .sha1? where !isVersion4(schema): try set(schema, "cipher_use_hmac", "1")
        case let algorithm?: try set(schema, "cipher_hmac_algorithm", algorithm.rawValue)
        }
        if let size = settings.plaintextHeaderSize {
            try set(schema, "cipher_plaintext_header_size", "\(size)")
        }
    }

    private func isVersion4(_ schema: String) -> Bool {
        (try? pragma(schema, "cipher_kdf_algorithm")) ?? nil != nil
    }

    /// Sets a setting that the library may not know, and makes sure that it took effect: SQLite ignores pragmas that it
    /// does not know.
    private func set(_ schema: String, _ name: String, _ value: String) throws(SQLiteError) {
        // If an allocation fails, SQLCipher does not change the setting, and does not say so. So this tries twice.
        for _ in 0..<2 {
            try pragma(schema, name, value)
            if try pragma(schema, name) == value { return }
        }
        throw unsupported("\(name) \(value)")
    }

    private func unsupported(_ what: String) -> SQLiteError {
        SQLiteError(code: .misuse, message: "\(Self.library) does not support this setting of the cipher: \(what)")
    }

    @discardableResult
    private func pragma(_ schema: String, _ name: String, _ value: String? = nil) throws(SQLiteError) -> String? {
        let statement = try prepare(
            "PRAGMA \(schema.quotedIdentifier).\(name)"
                + (value.map { " = " + ($0.allSatisfy(\.isNumber) ? $0 : "'\($0)'") } ?? "")
        )
        guard try statement.step() else { return nil }
        return statement.text(at: 0)
    }

    // MARK: The first read

    /// Reads the schema. A key that does not fit, or a file that is no database, shows in this read.
    ///
    /// - Throws: ``SQLiteError`` that says what does not fit.
    public func checkReadable(schema: String = "main") throws(SQLiteError) {
        do {
            let statement = try prepare("SELECT count(*) FROM \(schema.quotedIdentifier).sqlite_master")
            _ = try statement.step()
            statement.reset()
        } catch {
            throw explained(error, schema)
        }
    }

    private func explained(_ error: SQLiteError, _ schema: String) -> SQLiteError {
        let key = heldKeys[schema]
        // In a file with a plaintext header, SQLite reports the garbage after the header as damage.
        let codes: [ResultCode] = key == nil ? [.notADatabase] : [.notADatabase, .corrupt, .error]
        guard codes.contains(error.code.primary) else { return error }
        let isPlain = header(schema) == Self.plainHeader
        if key == nil, isPlain { return error }
        guard let key else { return Self.missingKey }
        return SQLiteError(
            code: .notADatabase,
            message: isPlain && !key.hasPlaintextHeader
                ? "the file is not encrypted, and a key was given: open it without one"
                : "the key or the settings of the cipher do not fit the file, or it is no database"
        )
    }

    /// The error of a file that cannot be read without a key.
    static var missingKey: SQLiteError {
        SQLiteError(
            code: .notADatabase,
            message: "the file is encrypted, or is no database: "
                + (canEncrypt
                    ? "give its key"
                    : "\(library) does not decrypt; build with the package trait SQLCipher, and give the key")
        )
    }

    private static let plainHeader = Array("SQLite format 3\0".utf8)

    /// The file's first 16 bytes, which are the salt of an encrypted file; `nil` if the file is shorter.
    private func header(_ schema: String) -> [UInt8]? {
        var header = [UInt8](repeating: 0, count: 16)
        let code = header.withUnsafeMutableBytes { midstream_read_header(db, schema, $0.baseAddress, 16) }
        return code == SQLITE_OK ? header : nil
    }
}

/// What a connection keeps of the key with which a file was opened.
struct HeldKey {
    /// The key that was derived once for all connections. It exists for as long as one of them is open.
    var derived: KeyCache.Key?
    var hasPlaintextHeader: Bool
}
