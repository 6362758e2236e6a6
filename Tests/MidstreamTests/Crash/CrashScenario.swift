import Midstream

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

    var retirement: SourceRetirement {
        switch self {
        case .keep: .keep
        case .deleteFile: .deleteFileWhenEmpty
        case .drop, .sameFile, .rollbackJournal, .split: .drop
        }
    }

    var configuration: DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        if self == .rollbackJournal { configuration.journalMode = .unchanged }
        return configuration
    }
}
