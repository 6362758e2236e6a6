import Midstream
import MidstreamTesting
import SQLiteConnection

/// One way to migrate. Tests kill the process at every write of it.
enum CrashScenario: String, CaseIterable, Sendable, Codable {
    /// The source's tables are dropped.
    case drop
    /// The source's tables stay.
    case keep
    /// The source's file is deleted with its last table.
    case deleteFile
    /// Tables move within one file.
    case sameFile
    /// Within one file, rows move into a table that moves on itself.
    case chain
    /// Rows move into a table that moves on itself. The three tables are in files of their own.
    case chainOfFiles
    /// The target has a rollback journal, and the source a WAL.
    case rollbackJournal
    /// As `rollbackJournal`, and the application's commits are synced.
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
    /// As `cancelled`, with a source that has a rollback journal.
    case cancelledRollbackJournal
    /// As `deleteFile`, `chainOfFiles` and `cancelled`, and the application's commits are synced.
    case deleteFileFull, chainOfFilesFull, cancelledFull
    /// Tables are built beside the live ones, and the source's tables are dropped.
    case built
    /// Tables are built within one file, and the application's commits are synced.
    case builtFull
    /// Tables are built, and two tables of the source give one table its rows.
    case builtSources
    /// The source and the target are encrypted, with keys and settings of their own.
    case encrypted

    static let tried = chosen(of: allCases)

    /// All cases, or those that `MIDSTREAM_CRASH` names, if it names some.
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

    /// Whether the application's commits are synced. That alone makes the scenario differ from another one.
    var isFull: Bool {
        [.synchronousFull, .rollbackJournalFull, .deleteFileFull, .chainOfFilesFull, .cancelledFull, .builtFull]
            .contains(self)
    }

    /// Whether the source has a rollback journal once the beginning is over.
    var hasRollbackJournalOfSource: Bool { self == .rollbackJournalOfSource || self == .cancelledRollbackJournal }

    /// How many of the reported transactions may be lost: with a rollback journal the last one, with a WAL all since it
    /// was last copied.
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

    /// `MIDSTREAM_CRASH_ENCRYPTED=1` encrypts the files of all scenarios.
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
