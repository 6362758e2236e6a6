/// How SQLCipher encrypts a file, where that differs from the linked library's defaults.
///
/// A file can only be read with the settings with which it was made. The settings are not stored in the file.
///
/// Source: <https://www.zetetic.net/sqlcipher/sqlcipher-api/>.
public struct CipherSettings: Sendable, Hashable {
    /// The algorithm that stretches a passphrase.
    public enum KDFAlgorithm: String, Sendable {
        case sha1 = "PBKDF2_HMAC_SHA1"
        case sha256 = "PBKDF2_HMAC_SHA256"
        case sha512 = "PBKDF2_HMAC_SHA512"
    }

    /// The algorithm of the code that protects each page from changes.
    public enum HMACAlgorithm: String, Sendable {
        case sha1 = "HMAC_SHA1"
        case sha256 = "HMAC_SHA256"
        case sha512 = "HMAC_SHA512"
        /// None: pages are encrypted only.
        case none = "NONE"
    }

    /// The version of SQLCipher whose defaults apply, 1 to 4; `nil` for the defaults of the linked library.
    public var compatibility: Int?
    /// The size of a page in bytes, a power of 2 from 512 to 65,536.
    public var pageSize: Int?
    /// How often a passphrase is hashed, at least 1.
    public var kdfIterations: Int?
    /// The algorithm that stretches a passphrase. Any other than SHA-1 needs SQLCipher 4.
    public var kdfAlgorithm: KDFAlgorithm?
    /// The algorithm of the pages' codes. Any other than SHA-1 and none needs SQLCipher 4.
    public var hmacAlgorithm: HMACAlgorithm?
    /// How many bytes at the start of the file stay readable, as iOS asks of files in shared containers: 32 in most
    /// cases. The file then does not hold its salt, so ``salt`` must be given. Needs SQLCipher 4.
    public var plaintextHeaderSize: Int?
    /// The salt, 16 bytes, if it is not in the file.
    public var salt: [UInt8]?

    /// Makes settings that are the linked library's defaults.
    public init() {}

    /// Makes settings that are the defaults of a version of SQLCipher, 1 to 4.
    public init(compatibility: Int) {
        self.compatibility = compatibility
    }
}
