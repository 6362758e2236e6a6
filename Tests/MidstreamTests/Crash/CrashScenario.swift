import Midstream
import MidstreamTesting
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
    /// Within one file, rows move into a table that moves on itself.
    case chain
    /// Rows move into a table that moves on itself, each in a file of its own.
    case chainOfFiles
    /// The target has a rollback journal, and the source a WAL.
    case rollbackJournal
    /// The same, and the application's commits stay.
    case rollbackJournalFull
    /// The source has a rollback journal, and the target a WAL. Its beginning is over.
    case rollbackJournalOfSource
    /// The application's commits are synced.
    case synchronousFull
    /// Two tables take one source table's rows.
    case split
    /// Two tables of the source give one table its rows.
    case severalSources
    /// Columns have other names and values than in the source.
    case mapped
    /// The target refuses some of the rows, which are set aside.
    case setAside
    /// Rows return to the source, and move again in the end.
    case cancelled
    /// The same, where the source has a rollback journal.
    case cancelledRollbackJournal
    /// The file goes, the rows of three files move or rows return, and the application's commits stay.
    case deleteFileFull, chainOfFilesFull, cancelledFull
    /// Tables are built beside the live ones. The source goes.
    case built
    /// The same within one file, and the application's commits stay.
    case builtFull
    /// The same where two tables of the source give one table its rows.
    case builtSources
    /// The source and the target are encrypted, with keys and settings of their own.
    case encrypted

    static let tried = chosen(of: allCases)

    /// All, or those that `MIDSTREAM_CRASH` names, if it names some.
    static func chosen<Case: RawRepresentable<String>>(of all: [Case]) -> [Case] {
        let names = Files.environment("MIDSTREAM_CRASH")?.split(separator: ",").map(String.init) ?? []
        let chosen = all.filter { names.contains($0.rawValue) }
        return chosen.isEmpty ? all : chosen
    }

    static let allCases: [CrashScenario] =
        [
            .drop, .keep, .deleteFile, .sameFile, .chain, .chainOfFiles, .rollbackJournal, .rollbackJournalFull,
            .rollbackJournalOfSource, .synchronousFull, .split, .severalSources, .mapped, .setAside, .cancelled,
            .cancelledRollbackJournal, .deleteFileFull, .chainOfFilesFull, .cancelledFull, .built, .builtFull,
            .builtSources,
        ] + (Connection.canEncrypt ? [.encrypted] : [])

    var isSameFile: Bool { [.sameFile, .chain, .builtFull].contains(self) }
    var isBuilt: Bool { [.built, .builtFull, .builtSources].contains(self) }
    var hasSeveralSources: Bool { self == .severalSources || self == .builtSources }

    var deletesFile: Bool { self == .deleteFile || self == .deleteFileFull }

    var isChainOfFiles: Bool { self == .chainOfFiles || self == .chainOfFilesFull }

    /// Whether rows return to the source.
    var isCancelled: Bool { [.cancelled, .cancelledRollbackJournal, .cancelledFull].contains(self) }

    /// Whether the application's commits are synced, by which alone it differs from another scenario.
    var isFull: Bool {
        [.synchronousFull, .rollbackJournalFull, .deleteFileFull, .chainOfFilesFull, .cancelledFull, .builtFull]
            .contains(self)
    }

    /// Whether the source has a rollback journal once its beginning is over.
    var hasRollbackJournalOfSource: Bool { self == .rollbackJournalOfSource || self == .cancelledRollbackJournal }

    /// How many transactions that were reported may be gone: without a WAL the last one, with one all since it was copied.
    func mostLost(_ manner: KillingVFS.Manner) -> Int {
        if !manner.losesPower || isFull { return 0 }
        return self == .rollbackJournal ? 1 : .max
    }

    var retirement: SourceRetirement {
        deletesFile ? .deleteFileWhenEmpty : self == .keep ? .keep : .drop
    }

    var configuration: DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        if self == .rollbackJournal || self == .rollbackJournalFull { configuration.journalMode = .unchanged }
        if isFull { configuration.synchronous = .full }
        // Nobody else has the files.
        configuration.busyTimeout = .milliseconds(100)
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
