internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// PBKDF2, from the library that SQLCipher itself uses and has brought into the process.
enum KeyDerivation {
    /// What besides the passphrase determines the key.
    struct Parameters: Hashable {
        var iterations: Int
        var algorithm: CipherSettings.KDFAlgorithm
        var salt: [UInt8]
    }

    /// The key; `nil` if the process has no such function, so that SQLCipher has to derive it.
    ///
    /// - Complexity: O(`iterations`), 30 to 130 ms with the defaults of SQLCipher 3 and 4.
    static func deriveKey(_ passphrase: SecretBytes, _ parameters: Parameters) -> SecretBytes? {
        guard let derive = functions else { return nil }
        return try? SecretBytes(count: 32) { key in
            try passphrase.withBytes { bytes in
                if !derive(bytes, parameters, key) { throw Failure() }
            }
        }
    }

    private struct Failure: Error {}

    private typealias Derive =
        @Sendable (UnsafeRawBufferPointer, Parameters, UnsafeMutableRawBufferPointer) -> Bool

    private static let functions = openSSL() ?? commonCrypto()

    private static func symbol<Function>(_ name: String, as type: Function.Type) -> Function? {
        // RTLD_DEFAULT is a null pointer, and -2 on Apple's systems.
        #if canImport(Darwin)
            let everywhere = UnsafeMutableRawPointer(bitPattern: -2)
        #else
            let everywhere: UnsafeMutableRawPointer? = nil
        #endif
        return dlsym(everywhere, name).map { unsafeBitCast($0, to: type) }
    }

    /// Source: <https://docs.openssl.org/master/man3/PKCS5_PBKDF2_HMAC/>.
    private static func openSSL() -> Derive? {
        typealias Digest = @convention(c) () -> OpaquePointer?
        typealias PBKDF2 =
            @convention(c) (
                UnsafeRawPointer?, Int32, UnsafePointer<UInt8>, Int32, Int32, OpaquePointer?, Int32,
                UnsafeMutableRawPointer?
            ) -> Int32
        guard let derive = symbol("PKCS5_PBKDF2_HMAC", as: PBKDF2.self), let sha1 = symbol("EVP_sha1", as: Digest.self),
            let sha256 = symbol("EVP_sha256", as: Digest.self), let sha512 = symbol("EVP_sha512", as: Digest.self)
        else { return nil }
        return { passphrase, parameters, key in
            let digest =
                switch parameters.algorithm {
                case .sha1: sha1()
                case .sha256: sha256()
                case .sha512: sha512()
                }
            return derive(
                passphrase.baseAddress,
                Int32(passphrase.count),
                parameters.salt,
                Int32(parameters.salt.count),
                Int32(clamping: parameters.iterations),
                digest,
                Int32(key.count),
                key.baseAddress
            ) == 1
        }
    }

    /// Source: `CommonCrypto/CommonKeyDerivation.h` of Apple's systems.
    private static func commonCrypto() -> Derive? {
        typealias PBKDF2 =
            @convention(c) (
                UInt32, UnsafeRawPointer?, Int, UnsafePointer<UInt8>, Int, UInt32, UInt32, UnsafeMutableRawPointer?, Int
            ) -> Int32
        guard let derive = symbol("CCKeyDerivationPBKDF", as: PBKDF2.self) else { return nil }
        return { passphrase, parameters, key in
            let function: UInt32 =
                switch parameters.algorithm {
                case .sha1: 1
                case .sha256: 3
                case .sha512: 5
                }
            return derive(
                2,
                passphrase.baseAddress,
                passphrase.count,
                parameters.salt,
                parameters.salt.count,
                function,
                UInt32(clamping: parameters.iterations),
                key.baseAddress,
                key.count
            ) == 0
        }
    }
}
