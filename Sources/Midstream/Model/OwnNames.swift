internal import SQLText

/// Tells which objects of a file are the engine's own. Their names begin with `midstream_`. An application's names may begin so
/// too: an object that is not known here is treated as the application's.
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

    /// Tables that say where rows are.
    private static let stateTables: Set<String> = [
        state, migrations, tables, columns, beginnings, givenUp, copy, returns, unreleased, unfencedClaims, keptRowIDs,
        claimedRowIDs, stops, builds, cursors, claims,
    ]

    /// How the names of such tables begin that one move has for itself; the move's number follows.
    private static let stateOfMoves = ["ledger_", "watermark_", "returning_", "backup_"].map { prefix + $0 }

    private static let otherTables: Set<String> = [
        upgrades, "midstream_keys", "midstream_rowid", "midstream_count",
    ]

    private static let otherTablesOfMoves = ["pending_", "whole_", "keys_", "names"].map { prefix + $0 }

    /// The kinds of tables that report rows which could not come like the others.
    static let reports = ["refused", "unreadable"]

    // MARK: Builds

    /// The prefix of the names of hidden tables in which rows, or the entries of an index, are built.
    static let buildPrefix = prefix + "build_"
    static let imposter = buildPrefix + "imposter"
    static let ofNulls = "_nulls"
    static let ofMerged = "_merged"
    static let ofEdits = "_edits"
    /// The suffixes of a build's tables other than those of the rows and the entries.
    static let buildSuffixes = [ofNulls, ofMerged, ofEdits]

    /// The name of the table in which a move's rows are built; or, with the number of a part, of the table of an index's entries.
    static func build(_ id: Int64, part: Int = 0) -> String {
        part == 0 ? "\(buildPrefix)\(id)" : "\(buildPrefix)\(id)_\(part)"
    }

    // MARK: Triggers and views

    /// The statements that a guard or a fence refuses, in lower case.
    static let guardedStatements = ["insert", "update", "delete"]
    /// The prefix of the names of a beginning's triggers: see ``BeginningGuard``.
    static let beginningPrefix = prefix + "begin_"
    /// The statements that a beginning's triggers refuse.
    static let beginningEvents = ["insert", "update"]
    /// The prefixes of the names of the triggers that promote rows for foreign keys; a number follows.
    static let keyTriggers = ["insert", "update", "change", "delete"].map { "\(prefix)keys_\($0)_" }
    private static let fences = guardedStatements.map { "\(prefix)fence_\($0)_" }
    private static let triggers =
        guardedStatements.map { "\(prefix)\($0)_" } + fences
        + beginningEvents.map { "\(beginningPrefix)\($0)_" } + keyTriggers

    /// The name of the relation that has a table's pending rows.
    static func pending(_ id: Int64) -> String { "midstream_pending_\(id)" }

    /// The name of the union with the first of several sources. For the next source, this union is the target.
    static func whole(_ id: Int64) -> String { "midstream_whole_\(id)" }

    // MARK: What is whose

    /// Whether a name is one of these prefixes, followed by a number.
    private static func isNumbered(_ name: String, _ beginnings: [String]) -> Bool {
        beginnings.contains { name.hasPrefix($0) && Int64(name.dropFirst($0.utf8.count)) != nil }
    }

    /// Whether a table says where rows are, or has pending rows: nobody but Midstream may write it.
    static func tellsOfRows(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        return name.hasPrefix(prefix)
            && (stateTables.contains(name) || isNumbered(name, stateOfMoves) || isBuild(name))
    }

    /// Whether a table is part of a build: it has another table's rows, or entries of one of its indexes.
    private static func isBuild(_ name: String) -> Bool {
        guard name.hasPrefix(buildPrefix) else { return false }
        var rest = name.dropFirst(buildPrefix.utf8.count)
        for suffix in buildSuffixes where rest.hasSuffix(suffix) {
            rest = rest.dropLast(suffix.utf8.count)
        }
        let numbers = rest.split(separator: "_", omittingEmptySubsequences: false)
        return numbers.count <= 2 && numbers.allSatisfy { Int64($0) != nil }
    }

    /// Whether a table reports rows that were set aside, or could not be read. What becomes of it is up to the application.
    static func isReport(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        return reports.contains { name.hasPrefix("\(prefix)\($0)_") }
    }

    /// Whether the engine made a table.
    package static func isTable(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        guard name.hasPrefix(prefix) else { return false }
        return tellsOfRows(name) || isReport(name) || otherTables.contains(name) || isNumbered(name, otherTablesOfMoves)
    }

    /// Whether a table is the former shape of one that was rebuilt.
    package static func isBackup(_ table: String) -> Bool { isNumbered(table, [TableRecord.backupPrefix]) }

    package static func isTrigger(_ name: String) -> Bool { name.hasPrefix(prefix) && isNumbered(name, triggers) }

    /// Whether a trigger is a fence: it refuses writes to a source. The source may also be a target.
    static func isFence(_ name: String) -> Bool { name.hasPrefix(prefix) && isNumbered(name, fences) }
}
