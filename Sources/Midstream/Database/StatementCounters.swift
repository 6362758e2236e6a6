internal import Synchronization

/// Counts drains and refusals of statements, for all connections of a database.
final class StatementCounters: Sendable {
    private let counts = Mutex(MigrationStatistics())

    var statistics: MigrationStatistics { counts.withLock { $0 } }

    func noteDrain(of tables: [String], _ reason: MigrationStatistics.Reason) {
        counts.withLock { counts in
            for table in tables { counts.drained[table, default: [:]][reason, default: 0] += 1 }
        }
    }

    func noteRefusal(_ reason: MigrationStatistics.Reason) {
        counts.withLock { $0.refused[reason, default: 0] += 1 }
    }
}
