internal import SQLiteConnection

/// Settings of a cipher as text: `compatibility=3,page-size=4096`.
enum CipherText {
    /// A setting that cannot be understood. The message names the setting, and never shows a value.
    struct Problem: Error, Equatable {
        var message: String
    }

    static let names = "compatibility, page-size, kdf-iterations, kdf-algorithm, hmac, plaintext-header and salt"

    static func parse(_ text: String) throws(Problem) -> CipherSettings {
        var settings = CipherSettings()
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let equals = part.firstIndex(of: "=") else { throw unknown }
            try set(&settings, String(part[..<equals]), String(part[part.index(after: equals)...]))
        }
        if settings.plaintextHeaderSize ?? 0 > 0, settings.salt == nil {
            throw Problem(message: "with a plaintext-header the file does not hold its salt: give salt too")
        }
        return settings
    }

    private static var unknown: Problem { Problem(message: "it takes NAME=VALUE,… with the names \(names)") }

    private static func set(_ settings: inout CipherSettings, _ name: String, _ value: String) throws(Problem) {
        /// The setting that a value stands for, if it stands for one.
        func checked<Setting>(_ setting: Setting?, _ meaning: String) throws(Problem) -> Setting {
            guard let setting else { throw Problem(message: "\(name) is \(meaning)") }
            return setting
        }
        switch name {
        case "compatibility":
            settings.compatibility = try checked(
                number(value) { (1...4).contains($0) },
                "a version of SQLCipher, 1 to 4"
            )
        case "page-size":
            settings.pageSize = try checked(
                number(value) { (512...65_536).contains($0) && $0.nonzeroBitCount == 1 },
                "a power of 2 from 512 to 65536"
            )
        case "kdf-iterations":
            settings.kdfIterations = try checked(
                number(value) { (1...Int(Int32.max)).contains($0) },
                "a number from 1 to 2147483647"
            )
        case "kdf-algorithm":
            let algorithms: [String: CipherSettings.KDFAlgorithm] = [
                "sha1": .sha1, "sha256": .sha256, "sha512": .sha512,
            ]
            settings.kdfAlgorithm = try checked(algorithms[value], "sha1, sha256 or sha512")
        case "hmac":
            let algorithms: [String: CipherSettings.HMACAlgorithm] = [
                "sha1": .sha1, "sha256": .sha256, "sha512": .sha512, "none": .none,
            ]
            settings.hmacAlgorithm = try checked(algorithms[value], "sha1, sha256, sha512 or none")
        case "plaintext-header":
            settings.plaintextHeaderSize = try checked(
                number(value) { (0...96).contains($0) && $0 % 16 == 0 },
                "a multiple of 16 up to 96"
            )
        case "salt": settings.salt = try checked(bytes(value), "32 hexadecimal digits")
        default: throw unknown
        }
    }

    private static func number(_ text: String, where isMeant: (Int) -> Bool) -> Int? {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(text).flatMap { isMeant($0) ? $0 : nil }
    }

    private static func bytes(_ text: String) -> [UInt8]? {
        let digits = text.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard text.utf8.count == 32, digits.count == 32 else { return nil }
        return stride(from: 0, to: 32, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
