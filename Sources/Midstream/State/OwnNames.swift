internal import SQLText

/// Which objects of a file are the engine's own. Their names begin with `midstream_`, and so may an application's: what is not
/// known here is like any other.
package enum OwnNames {
    static let prefix = "midstream_"

    /// Tables that tell where rows are.
    private static let stateTables: Set<String> = [
        "midstream_state", "midstream_migrations", "midstream_tables", "midstream_columns", StateStore.beginnings,
        StateStore.givenUp, WholeFile.copyTable, Returns.table, Unreleased.table, UnfencedClaims.table,
        KeptRowIDs.table, KeptRowIDs.claimed, Stops.table, BuildStore.table, BuildStore.cursors,
        "midstream_claims",
    ]

    /// The same for one move each, whose number follows.
    private static let stateOfMoves = ["ledger_", "watermark_", "returning_", "backup_"].map { prefix + $0 }

    private static let otherTables: Set<String> = [
        UpgradeRecords.table, "midstream_keys", "midstream_rowid", "midstream_count",
    ]

    private static let otherTablesOfMoves = ["pending_", "whole_", "keys_", "names"].map { prefix + $0 }

    /// How the names of triggers begin.
    private static let fences = MoveSQL.guards.map { "\(prefix)fence_\($0)_" }
    private static let triggers =
        MoveSQL.guards.map { "\(prefix)\($0)_" } + fences + BeginningGuard.prefixes + KeyActions.triggerNames

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
        guard name.hasPrefix(TableBuild.prefix) else { return false }
        var rest = name.dropFirst(TableBuild.prefix.utf8.count)
        for suffix in TableBuild.suffixes where rest.hasSuffix(suffix) {
            rest = rest.dropLast(suffix.utf8.count)
        }
        let numbers = rest.split(separator: "_", omittingEmptySubsequences: false)
        return numbers.count <= 2 && numbers.allSatisfy { Int64($0) != nil }
    }

    /// Whether a table tells of rows that were set aside, or could not be read. It is the application's to deal with.
    static func isReport(_ table: String) -> Bool {
        let name = SQLIdentifier.lowercased(table)
        return ReportTable.kinds.contains { name.hasPrefix("\(prefix)\($0)_") }
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

    /// Whether an object of a file is one of the engine's own.
    ///
    /// - Parameter table: The table that it is on; its own name, if it is one.
    static func has(_ type: SchemaObject.Kind, _ name: String, on table: String) -> Bool {
        switch type {
        case .table, .view: isTable(name)
        case .index: isTable(table)
        case .trigger: isTrigger(name) || isTable(table)
        }
    }
}
