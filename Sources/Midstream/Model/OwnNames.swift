internal import SQLText

/// Which objects of a file are the engine's own. Their names begin with `midstream_`, and so may an application's: what is not
/// known here is like any other.
package enum OwnNames {
    static let prefix = "midstream_"

    // MARK: Tables

    static let state = "midstream_state"
    static let migrations = "midstream_migrations"
    static let tables = "midstream_tables"
    static let columns = "midstream_columns"
    static let beginnings = "midstream_beginnings"
    static let givenUp = "midstream_given_up"
    static let copy = "midstream_copy"
    static let returns = "midstream_returns"
    static let unreleased = "midstream_unreleased"
    static let unfencedClaims = "midstream_unfenced_claims"
    static let keptRowIDs = "midstream_kept_rowids"
    static let claimedRowIDs = "midstream_claimed_rowids"
    static let stops = "midstream_stops"
    static let builds = "midstream_builds"
    static let cursors = "midstream_cursors"
    static let claims = "midstream_claims"
    static let upgrades = "midstream_upgrades"

    /// Tables that tell where rows are.
    private static let stateTables: Set<String> = [
        state, migrations, tables, columns, beginnings, givenUp, copy, returns, unreleased, unfencedClaims, keptRowIDs,
        claimedRowIDs, stops, builds, cursors, claims,
    ]

    /// The same for one move each, whose number follows.
    private static let stateOfMoves = ["ledger_", "watermark_", "returning_", "backup_"].map { prefix + $0 }

    private static let otherTables: Set<String> = [
        upgrades, "midstream_keys", "midstream_rowid", "midstream_count",
    ]

    private static let otherTablesOfMoves = ["pending_", "whole_", "keys_", "names"].map { prefix + $0 }

    /// The kinds of tables for rows that do not come as others do.
    static let reports = ["refused", "unreadable"]

    // MARK: Builds

    /// How the names of hidden tables begin in which rows, or the entries of an index, are built.
    static let buildPrefix = prefix + "build_"
    static let imposter = buildPrefix + "imposter"
    static let ofNulls = "_nulls"
    static let ofMerged = "_merged"
    static let ofEdits = "_edits"
    /// What the tables beside those of the rows and of the entries have behind their names.
    static let buildSuffixes = [ofNulls, ofMerged, ofEdits]

    /// The table in which the rows of a move are built; or, with the number of a part, the entries of an index.
    static func build(_ id: Int64, part: Int = 0) -> String {
        part == 0 ? "\(buildPrefix)\(id)" : "\(buildPrefix)\(id)_\(part)"
    }

    // MARK: Triggers and views

    /// The statements that a guard or a fence refuses.
    static let guardedStatements = ["insert", "update", "delete"]
    /// How the names of a beginning's triggers begin: see ``BeginningGuard``.
    static let beginningPrefix = prefix + "begin_"
    /// The statements that a beginning's triggers refuse.
    static let beginningEvents = ["insert", "update"]
    /// How the names of the triggers begin that carry out a foreign key's actions; a number follows.
    static let keyTriggers = ["insert", "update", "change", "delete"].map { "\(prefix)keys_\($0)_" }
    private static let fences = guardedStatements.map { "\(prefix)fence_\($0)_" }
    private static let triggers =
        guardedStatements.map { "\(prefix)\($0)_" } + fences
        + beginningEvents.map { "\(beginningPrefix)\($0)_" } + keyTriggers

    /// The name of the relation that has a table's pending rows.
    static func pending(_ id: Int64) -> String { "midstream_pending_\(id)" }

    /// The name of the union with the first of several sources, which is the target for the next.
    static func whole(_ id: Int64) -> String { "midstream_whole_\(id)" }

    // MARK: What is whose

    /// Whether a name is one of these beginnings with a number behind it.
    private static func isNumbered(_ name: String, _ beginnings: [String]) -> Bool {
        beginnings.contains { name.hasPrefix($0) && Int64(name.dropFirst($0.utf8.count)) != nil }
    }

    /// Whether a table tells where rows are, or has rows that have yet to move: nobody else may write it.
    static func tellsOfRows(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        return name.hasPrefix(prefix)
            && (stateTables.contains(name) || isNumbered(name, stateOfMoves) || isBuild(name))
    }

    /// Whether a table is one in which another's rows, or the entries of one of its indexes, are built.
    private static func isBuild(_ name: String) -> Bool {
        guard name.hasPrefix(buildPrefix) else { return false }
        var rest = name.dropFirst(buildPrefix.utf8.count)
        for suffix in buildSuffixes where rest.hasSuffix(suffix) {
            rest = rest.dropLast(suffix.utf8.count)
        }
        let numbers = rest.split(separator: "_", omittingEmptySubsequences: false)
        return numbers.count <= 2 && numbers.allSatisfy { Int64($0) != nil }
    }

    /// Whether a table tells of rows that were set aside, or could not be read. It is the application's to deal with.
    static func isReport(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        return reports.contains { name.hasPrefix("\(prefix)\($0)_") }
    }

    /// Whether a table is one that the engine has made.
    package static func isTable(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        guard name.hasPrefix(prefix) else { return false }
        return tellsOfRows(name) || isReport(name) || otherTables.contains(name) || isNumbered(name, otherTablesOfMoves)
    }

    /// Whether a table is what one was before it was rebuilt.
    package static func isBackup(_ table: String) -> Bool { isNumbered(table, [TableRecord.backupPrefix]) }

    package static func isTrigger(_ name: String) -> Bool { name.hasPrefix(prefix) && isNumbered(name, triggers) }

    /// Whether a trigger refuses writes to a source, be it a target as well.
    static func isFence(_ name: String) -> Bool { name.hasPrefix(prefix) && isNumbered(name, fences) }
}
