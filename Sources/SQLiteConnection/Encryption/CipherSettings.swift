/// How SQLCipher encrypts a file, as far as it differs from the linked library's defaults.
///
/// A file can be read with the settings that it was made with, and with no others. They are not stored in it.
///
/// Source: <https://www.zetetic.net/sqlcipher/sqlcipher-api/>.
public struct CipherSettings: Sendable, Hashable {
    /// The algorithm that a passphrase is stretched with.
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

    /// The version of SQLCipher whose defaults are taken, 1 to 4; `nil` for those of the linked library.
    public var compatibility: Int?
    /// The size of a page in bytes, a power of 2 from 512 to 65,536.
    public var pageSize: Int?
    /// How often a passphrase is hashed, at least 1.
    public var kdfIterations: Int?
    /// The algorithm that a passphrase is stretched with. Other than SHA-1: SQLCipher 4.
    public var kdfAlgorithm: KDFAlgorithm?
    /// The algorithm of the pages' codes. Other than SHA-1 and none: SQLCipher 4.
    public var hmacAlgorithm: HMACAlgorithm?
    /// How many bytes at the start of the file stay readable, as iOS asks of files in shared containers: 32 in most cases.
    /// Then the file does not hold its salt, and ``salt`` must be given. SQLCipher 4.
    public var plaintextHeaderSize: Int?
    /// The salt, 16 bytes, when it does not stand in the file.
    public var salt: [UInt8]?

    /// The linked library's defaults.
    public init() {}

    /// The defaults of a version of SQLCipher, 1 to 4.
    public init(compatibility: Int) {
        self.compatibility = compatibility
    }
}
