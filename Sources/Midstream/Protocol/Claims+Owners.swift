internal import SQLText
internal import SQLiteConnection

// Which rows of a source belong to which target.
extension Claims {
    /// What has been claimed of a source table and is in a target table for good.
    ///
    /// - Parameter moving: All tables that move.
    func moved(from source: String, into target: String, besides moving: [TableRecord]) throws -> [Claim] {
        try (isSameFile ? movedHere(besides: moving) : all()).filter { claim in
            claim.moved != nil && SQLIdentifier.equal(claim.sourceTable, source)
                && SQLIdentifier.equal(claim.targetTable, target) && isOwn(claim, for: claim.condition)
        }
    }

    /// Two targets may take parts of one table, if no row belongs to both.
    func checkDisjoint(_ record: TableRecord, _ other: Claim) throws {
        if other.moved == nil, other.undoStage != nil, !isStale(other) {
            throw MigrationError(
                .foreignState,
                "rows of source table \(record.source) are returning from \(other.destination), so that it is not "
                    + "known yet which rows this migration would take: let them return first",
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

    /// Whether rows belong to both of two that move at the same time, although none of the source's shows it: it has none, or they
    /// have been changed in the other's target. Of conditions, only the texts are compared then.
    private func isSureToShare(_ record: TableRecord, _ other: Claim) -> Bool {
        guard other.moved == nil, !isStale(other) else { return false }
        return record.condition == nil || other.condition == nil || Self.isSame(record.condition, other.condition)
    }

    /// What is told of a source's table whose rows belong to another migration.
    func belongs(_ source: String, to other: Claim, for target: String) -> MigrationError {
        guard !isSameFile, isStale(other) else { return Self.belongs(source, to: other.destination, for: target) }
        return MigrationError(
            .foreignState,
            "rows of source table \(source) already belong to the migration into \(other.destination), which is not there any more. "
                + "Put that file back, and open it. If it is lost, with what was written into it since, give it up by "
                + "Database.releaseSource(_:key:)",
            table: target
        )
    }

    private static func belongs(_ source: String, to owner: String, for target: String) -> MigrationError {
        MigrationError(
            .foreignState,
            "rows of source table \(source) already belong to the migration into \(owner): give conditions that no row "
                + "meets both of, or open that file",
            table: target
        )
    }

    /// Whether a claim is of a former table of the name: one that has moved and was dropped, or was kept and dropped by somebody else,
    /// with which its fence has gone.
    func isOfFormer(_ claim: Claim) throws -> Bool {
        try claim.isDropped || claim.moved != nil && claim.stamp == nil && claimFences(of: claim.sourceTable).isEmpty
    }

    /// A table of which rows move within their file, or have moved and stayed, is no source for another file: each of the two
    /// would not know when the other is done with the table. Nor the other way round, but for a part that has moved and stayed.
    ///
    /// - Parameter claims: All of the file; `nil` where they have yet to be read.
    func checkOwners(_ record: TableRecord, among claims: [Claim]? = nil) throws {
        // Others may begin meanwhile: a claim and its fence are there together.
        let (staked, fences) = try connection.holdingSnapshots(of: [schema]) {
            (try claims ?? all(), try self.fences(of: record.source))
        }
        let claims = try staked.filter {
            try SQLIdentifier.equal($0.sourceTable, record.source) && $0.id != record.id && !isOfFormer($0)
        }
        if isSameFile {
            for other in claims {
                // Rows that have gone are not there to be compared.
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

    /// Whether a claim names a target that is there no more: it was moved, or deleted.
    func isStale(_ claim: Claim) -> Bool {
        !claim.targetFile.hasSameBytes(as: targetFile()) && FilePath.isGone(path(of: claim, in: migration.schema))
    }

    /// Whether a claim names the path that its target had before that was moved. Once all rows have moved, nobody has the claim name
    /// the new one.
    func isLeftBehind(_ claim: Claim) -> Bool { claim.moved != nil && isStale(claim) }

    /// Whether a claim is this target's that takes the rows which meet a condition: where its target has been moved, that is the one
    /// which asks for the same rows.
    func isOwn(_ claim: Claim, for condition: String?) -> Bool {
        claim.targetFile.hasSameBytes(as: targetFile())
            || Self.isSame(claim.condition, condition) && isLeftBehind(claim)
    }

    /// Whether two conditions are one, written differently at most.
    static func isSame(_ a: String?, _ b: String?) -> Bool {
        func words(_ text: String?) -> ExactString? { text.map { ExactString(string: CreateTable.words($0)) } }
        return words(a) == words(b)
    }

    /// Where the target of a claim is, or was.
    func path(of claim: Claim, in schema: String) -> String {
        FilePath.absolute(claim.targetFile, fromFolderOf: connection.fileName(schema: schema) ?? "")
    }
}
