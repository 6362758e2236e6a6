internal import SQLText
internal import SQLiteConnection

// Which of a source's rows belong to which target.
extension Claims {
    /// The claims on a source table whose rows are in a target table for good.
    ///
    /// - Parameter moving: All moving tables.
    func moved(from source: String, into target: String, besides moving: [TableRecord]) throws -> [Claim] {
        try (isSameFile ? movedHere(besides: moving) : all()).filter { claim in
            claim.moved != nil && SQLIdentifier.equal(claim.sourceTable, source)
                && SQLIdentifier.equal(claim.targetTable, target) && isOwn(claim, for: claim.condition)
        }
    }

    /// Checks that a move shares no row with another claim: two targets may take parts of one table if no row belongs to both.
    func checkDisjoint(_ record: TableRecord, _ other: Claim) throws {
        if other.moved == nil, other.undoStage != nil, !isStale(other) {
            throw MigrationError(
                .foreignState,
                "rows of source table \(record.source) are returning from \(other.destination), so Midstream does not "
                    + "know yet which rows this migration would take: wait until they have returned",
                table: record.target
            )
        }
        guard !isSureToShare(record, other) else { throw belongs(record.source, to: other, for: record.target) }
        let conditions = [record.condition, other.condition].map { "(\($0 ?? "1")\n)" }
        let source = "\(schema).\(SQLIdentifier.quoted(record.source))"
        let shared = try connection.fetchValue(
            Int64.self,
            "SELECT 1 FROM \(source) WHERE \(conditions.joined(separator: " AND ")) LIMIT 1"
        )
        guard shared == nil else { throw belongs(record.source, to: other, for: record.target) }
    }

    /// Whether two moves that run at the same time share rows although no row of the source shows it. The source may have no such
    /// row, or its rows may have been changed in the other's target. So the texts of the conditions decide.
    private func isSureToShare(_ record: TableRecord, _ other: Claim) -> Bool {
        guard other.moved == nil, !isStale(other) else { return false }
        return record.condition == nil || other.condition == nil || Self.isSame(record.condition, other.condition)
    }

    /// The error for a source's table whose rows belong to another migration.
    func belongs(_ source: String, to other: Claim, for target: String) -> MigrationError {
        guard !isSameFile, isStale(other) else { return Self.belongs(source, to: other.destination, for: target) }
        return MigrationError(
            .foreignState,
            "rows of source table \(source) already belong to the migration into \(other.destination), but that file "
                + "no longer exists. Restore the file, and open it. If it is lost, give up what was written into it: "
                + "call Database.releaseSource(_:key:)",
            table: target
        )
    }

    private static func belongs(_ source: String, to owner: String, for target: String) -> MigrationError {
        MigrationError(
            .foreignState,
            "rows of source table \(source) already belong to the migration into \(owner): give both migrations "
                + "conditions such that no row meets both, or open the file of that migration",
            table: target
        )
    }

    /// Whether a claim is on a former table of that name. That table has moved and was dropped; or it was kept, and another program
    /// dropped it, together with its fence.
    func isOfFormer(_ claim: Claim) throws -> Bool {
        try claim.isDropped || claim.moved != nil && claim.stamp == nil && claimFences(of: claim.sourceTable).isEmpty
    }

    /// Checks that the move does not conflict with another move of the table. A table cannot be a source of another file if its
    /// rows move within their file, or have moved there and stayed: neither move would know when the other is done with the table.
    /// Nor can a table that another file claims move within its file, except for a part that has moved and stayed.
    ///
    /// - Parameter claims: All claims of the file; `nil` if they have yet to be read.
    func checkOwners(_ record: TableRecord, among claims: [Claim]? = nil) throws {
        // Another process may begin a move meanwhile. A claim and its fence appear together.
        let (staked, fences) = try connection.holdingSnapshots(of: [schema]) {
            (try claims ?? all(), try self.fences(of: record.source))
        }
        let claims = try staked.filter {
            try SQLIdentifier.equal($0.sourceTable, record.source) && $0.id != record.id && !isOfFormer($0)
        }
        if isSameFile {
            for other in claims {
                // Rows that have gone cannot be compared.
                guard record.condition != nil, other.condition != nil else {
                    throw belongs(record.source, to: other, for: record.target)
                }
                try checkDisjoint(record, other)
            }
        }
        for fence in fences {
            if let other = Self.claim(of: fence, targetFile: file(of: migration.schema)) {
                if !isSameFile { throw belongs(record.source, to: other, for: record.target) }
            } else if claims.isEmpty, fence.strings.count == 1 {
                throw Self.belongs(record.source, to: "a table of \(file(of: migration.schema))", for: record.target)
            }
        }
    }

    /// Whether the target that a claim names no longer exists there: it was moved or deleted.
    func isStale(_ claim: Claim) -> Bool {
        !claim.targetFile.hasSameBytes(as: targetFile()) && FilePath.isGone(path(of: claim, in: migration.schema))
    }

    /// Whether a claim names the path that its target had before the target was moved. Once all rows have moved, nobody updates the
    /// claim's path.
    func isLeftBehind(_ claim: Claim) -> Bool { claim.moved != nil && isStale(claim) }

    /// Whether a claim is this target's, for the rows that meet a condition. If the claim's target has been moved, the target that
    /// asks for the same rows is taken for it.
    func isOwn(_ claim: Claim, for condition: String?) -> Bool {
        claim.targetFile.hasSameBytes(as: targetFile())
            || Self.isSame(claim.condition, condition) && isLeftBehind(claim)
    }

    /// Whether two conditions are the same, apart from how they are written.
    static func isSame(_ a: String?, _ b: String?) -> Bool {
        func words(_ text: String?) -> ExactString? { text.map { ExactString(string: CreateTable.words($0)) } }
        return words(a) == words(b)
    }

    /// The present or former path of a claim's target.
    func path(of claim: Claim, in schema: String) -> String {
        FilePath.absolute(claim.targetFile, fromFolderOf: connection.fileName(schema: schema) ?? "")
    }
}
