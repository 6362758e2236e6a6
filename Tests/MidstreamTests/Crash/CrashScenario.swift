import Midstream
import SQLiteConnection

/// One way to migrate, whose every write is a place to die at.
enum CrashScenario: String, CaseIterable, Sendable, Codable {
    /// The source's tables are dropped.
    case drop
    /// They stay.
    case keep
    /// The source's file goes with its last table.
    case deleteFile
    /// Tables move within one file.
    case sameFile
    /// The target has a rollback journal.
    case rollbackJournal
    /// Two tables take one source table's rows.
    case split
    /// The source and the target are encrypted, with keys and settings of their own.
    case encrypted

    static let allCases: [CrashScenario] =
        [.drop, .keep, .deleteFile, .sameFile, .rollbackJournal, .split] + (Connection.canEncrypt ? [.encrypted] : [])

    var retirement: SourceRetirement {
        switch self {
        case .keep: .keep
        case .deleteFile: .deleteFileWhenEmpty
        case .drop, .sameFile, .rollbackJournal, .split, .encrypted: .drop
        }
    }

    var configuration: DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        if self == .rollbackJournal { configuration.journalMode = .unchanged }
        configuration.sourceKey = { [sourceKey] _ in sourceKey }
        return configuration
    }

    /// `MIDSTREAM_CRASH_ENCRYPTED=1` encrypts all of them.
    private var isEncrypted: Bool {
        self == .encrypted || Connection.canEncrypt && Files.environment("MIDSTREAM_CRASH_ENCRYPTED") == "1"
    }

    var targetKey: EncryptionKey? { isEncrypted ? TestKeys.cheap("target") { $0.pageSize = 1024 } : nil }

    var sourceKey: EncryptionKey? {
        isEncrypted
            ? TestKeys.cheap("source") {
                $0.pageSize = 1024
                $0.hmacAlgorithm = CipherSettings.HMACAlgorithm.none
            } : nil
    }
}
