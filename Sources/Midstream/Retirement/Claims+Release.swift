internal import SQLText
internal import SQLiteConnection

// How a source lets go of a table whose rows have moved.
extension Claims {
    /// Records that all rows of a claim have moved, and drops the table if no row of it is anybody's any more.
    ///
    /// This is one transaction of the source. The transaction itself checks that the claim is this very target's: a
    /// copy of the target, or a target restored from a backup, must not take the rows away from the original.
    ///
    /// - Parameters:
    ///   - isDamaged: Whether SQLite cannot drop the table, since a page of it or of an index is damaged.
    ///   - reason: Why the table is to be kept; `nil` if only what is found here can keep it.
    ///   - claims: All claims of the file. This call changes the claim of the table.
    /// - Returns: Why the table was kept, or `nil` if it is gone.
    func release(
        _ record: TableRecord,
        moved: Int64,
        isDamaged: Bool,
        keptFor reason: String? = nil,
        among claims: inout [Claim]
    ) throws -> String? {
        guard let claim = claims.first(where: { $0.id == record.id }) else {
            throw MigrationError(
                .foreignState,
                "the source does not know of the migration of table \(record.target): the source was replaced by "
                    + "another file, or restored from a backup. The source is unchanged: restore source and target "
                    + "together",
                table: record.target
            )
        }
        try checkStage(claim, record)
        try checkOwner(claim)
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            // The table was dropped before, and the target could not be told; or another program has dropped or renamed
            // the table.
            return claim.moved == nil ? try releaseMissing(record, moved: moved, among: claims) : nil
        }
        // A table that was made anew since then is none of this move's.
        if claim.isDropped { return nil }
        try checkFence(record)
        try noteMoved(record, moved)
        for index in claims.indices where claims[index].id == record.id { claims[index].moved = moved }
        // Rows that had yet to come into this table have come into the target.
        try StateStore(connection: connection, schema: migration.schema).removeMoves(into: record.source)
        // If the table was to be kept, and was kept, it is not dropped because another call says something else later,
        // nor together with rows of other claims.
        let isKept = claim.moved != nil && !claim.isDroppable || record.retirement == .keep
        if isKept { return Self.wasToBeKept }
        let isLate = claim.moved != nil
        if let reason = try reason ?? reasonToKeep(record, isDamaged: isDamaged, isLate: isLate, among: claims) {
            if keeping(record, among: claims) != nil { return reason }
            try connection.execute("UPDATE \(table) SET droppable = 1 WHERE id = ?", [record.id])
            for index in claims.indices where claims[index].id == record.id { claims[index].isDroppable = true }
            return reason
        }
        try replaceByView(record, source.columns.map(\.name))
        for index in claims.indices where SQLIdentifier.equal(claims[index].sourceTable, record.source) {
            claims[index].isDropped = true
        }
        return nil
    }

    /// Why a table stays that was to be kept.
    static let wasToBeKept = "it was to be kept"

    /// Why a table stays although all rows that a move was to take have moved; `nil` if nobody needs the table any
    /// more.
    ///
    /// - Parameter isLate: Whether the table has stayed since its rows moved, so that rows may have come past its
    ///   fence.
    private func reasonToKeep(
        _ record: TableRecord,
        isDamaged: Bool,
        isLate: Bool,
        among claims: [Claim]
    ) throws -> String? {
        let sharing = claims.filter { SQLIdentifier.equal($0.sourceTable, record.source) }
        if let other = sharing.first(where: { $0.moved == nil }) {
            return "table \(other.targetTable) of \(other.targetFile) has yet to take rows from it"
        }
        if let table = record.unreadableRowsTable { return "rows of it cannot be read: see table \(table)" }
        if isDamaged { return "its file is damaged. All rows have moved" }
        if let other = keeping(record, among: claims) {
            return "it was to be kept when its rows had moved to \(other.destination)"
        }
        if let other = try sharing.first(where: { try $0.id != record.id && hasLost($0) }) {
            return
                "the rows that have moved to table \(other.targetTable) are no longer there: drop this table yourself "
                + "if they are not needed"
        }
        if try claimFences(of: record.source).isEmpty {
            return "its fence is gone, so other programs may have added rows: drop the table yourself if it is not "
                + "needed"
        }
        let name = migration.name(of: record.source)
        if isLate || sharing.contains(where: { $0.condition != nil }) {
            let rows: Int64 = try connection.fetchValue("SELECT count(*) FROM \(name)") ?? 0
            let claimed = sharing.reduce(0) { $0 + ($1.moved ?? 0) }
            if rows != claimed {
                let verb = rows - claimed == 1 ? "belongs" : "belong"
                return "\(rows - claimed) of its rows \(verb) to no migration"
            }
        }
        return try migration.remainder(connection).reasonToKeep(record)
    }

    /// The claim of another move that has taken rows of the same table, if that move was to keep the table.
    private func keeping(_ record: TableRecord, among claims: [Claim]) -> Claim? {
        claims.first { claim in
            claim.id != record.id && claim.moved != nil && !claim.isDroppable
                && SQLIdentifier.equal(claim.sourceTable, record.source)
        }
    }

    /// Whether a table of this target, one of several that took rows of the same source table, has no rows any more, or
    /// is gone.
    private func hasLost(_ claim: Claim) throws -> Bool {
        guard claim.moved ?? 0 > 0, claim.targetFile.hasSameBytes(as: targetFile()) else { return false }
        guard try SchemaReader(connection: connection, schema: "main").table(claim.targetTable) != nil else {
            return true
        }
        return try connection.fetchOne("SELECT 1 FROM main.\(SQLIdentifier.quoted(claim.targetTable)) LIMIT 1") == nil
    }

    private func noteMoved(_ record: TableRecord, _ rows: Int64) throws {
        try connection.execute(
            "UPDATE \(table) SET moved = ?1, target_version = ?2 WHERE id = ?3",
            [rows, connection.schemaVersion(), record.id]
        )
        try forgetRowIDs(of: record)
    }

    /// Releases a table that is not there any more. A table that was renamed has its fence still: the fence goes with
    /// the table.
    private func releaseMissing(_ record: TableRecord, moved: Int64, among claims: [Claim]) throws -> String? {
        try noteMoved(record, moved)
        let fenced = try fencedTables()
        let isRenamed = claims.contains {
            SQLIdentifier.equal($0.sourceTable, record.source) && fenced[$0.id] != nil
        }
        if isRenamed { return "it has another name by now" }
        try connection.execute("UPDATE \(table) SET dropped = 1 WHERE id = ?", [record.id])
        return nil
    }

    /// Drops the table and leaves a view in its place. Otherwise an old build would create the table anew and write
    /// into a void.
    private func replaceByView(_ record: TableRecord, _ columns: [String]) throws {
        let name = SQLIdentifier.quoted(record.source)
        try connection.dropTable(record.source, in: migration.schema)
        try connection.execute(
            "UPDATE \(table) SET dropped = 1 WHERE source_table = ?1 COLLATE NOCASE",
            [record.source]
        )
        let list = columns.map { "NULL AS \(SQLIdentifier.quoted($0))" }.joined(separator: ", ")
        try connection.create(in: migration.schema, ["CREATE VIEW \(schema).\(name) AS SELECT \(list) WHERE 0"])
        try connection.create(fence(record, "INSTEAD OF", of: targetFile()), in: migration.schema)
    }
}
