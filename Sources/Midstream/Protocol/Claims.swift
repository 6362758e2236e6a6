internal import SQLText
internal import SQLiteConnection

/// What a source file stores about the migrations that take its rows: which target claims which table, and the fence. The fence
/// refuses writes of builds that do not know of the migration.
///
/// `Docs/FileFormat.md` describes the table.
struct Claims {
    let connection: Connection
    let migration: MigrationRecord

    var schema: String { SQLIdentifier.quoted(migration.schema) }
    var table: String { "\(schema).midstream_claims" }
    var isSameFile: Bool { migration.sourcePath == nil }

    /// One target's claim on a table.
    struct Claim: Hashable {
        var id: Int64
        var sourceTable: String
        var targetFile: String
        var targetTable: String
        var condition: String?
        /// How many rows have moved; `nil` until all have.
        var moved: Int64?
        /// The version of the target's schema when all rows had moved. The version only grows.
        var targetVersion: Int64?
        /// The smallest and the largest rowid when the move began, or since rows last returned. If the table has no INTEGER PRIMARY
        /// KEY, VACUUM gives its rows other rowids. Then one of these two changes, unless no rowid does.
        var firstRowID: Int64?
        var lastRowID: Int64?
        /// The stage of the target's `Undo` that last wrote the table; `nil` while no row has returned.
        var undoStage: Int64?
        /// How many of that `Undo`'s transactions have written the table.
        var undoWrites: Int64?
        /// Whether the table was dropped after all its rows had moved. A table of its name is another one then.
        var isDropped = false
        /// Whether a later call may drop the table. All its rows have moved, and the table was kept for a reason that may change,
        /// not because it was asked to be kept.
        var isDroppable = false
        /// The status of the source's file, if the file cannot be written. The claim is then in the target alone.
        var stamp: SourceStamp?

        /// The table that takes the rows, in words.
        var destination: String { "table \(targetTable) of \(targetFile)" }
    }

    /// The claims on tables of the source. A claim that leads to this target has the target's present name: a path that was written
    /// for a former folder may lead to the target by chance.
    ///
    /// - Parameter id: The only claim that is wanted; `nil` for all.
    func all(only id: Int64? = nil) throws -> [Claim] {
        let unfenced = try unfenced(only: id)
        let claims = try Self.all(in: migration.schema, connection, only: id) + unfenced
        if claims.isEmpty { return [] }
        let (own, target) = (targetFile(), connection.fileName(schema: "main").flatMap(FilePath.identity))
        return claims.map { claim in
            guard let target, !claim.targetFile.hasSameBytes(as: own),
                FilePath.identity(path(of: claim, in: migration.schema)) == target
            else { return claim }
            var claim = claim
            claim.targetFile = own
            return claim
        }
    }

    /// The claims on tables of the source that are stored in the target alone.
    private func unfenced(only id: Int64?) throws -> [Claim] {
        if isSameFile { return [] }
        return try UnfencedClaims(connection: connection).all(
            of: migration,
            targetFile: targetFile(),
            at: connection.fileName(schema: migration.schema)
        ).filter { id == nil || $0.id == id }
    }

    /// The claims on tables of a file.
    ///
    /// - Parameters:
    ///   - schema: The schema under which the file is attached, as SQL writes it.
    ///   - id: The only claim that is wanted; `nil` for all.
    static func all(in schema: String, _ connection: Connection, only id: Int64? = nil) throws -> [Claim] {
        // Another connection may drop the table after this one has seen that it exists.
        try connection.holdingSnapshots(of: [schema]) { try allHere(in: schema, connection, only: id) }
    }

    private static func allHere(in schema: String, _ connection: Connection, only id: Int64?) throws -> [Claim] {
        guard try exist(in: schema, connection) else { return [] }
        return try connection.mapRows(
            "SELECT id, source_table, target_file, target_table, condition, moved, target_version, "
                + "first_rowid, last_rowid, undo_stage, undo_writes, dropped, droppable FROM \(schema).midstream_claims "
                + (id == nil ? "ORDER BY id" : "WHERE id = ?"),
            id.map { [$0] } ?? []
        ) {
            Claim(
                id: try $0.read(at: 0),
                sourceTable: try $0.read(at: 1),
                targetFile: try $0.read(at: 2),
                targetTable: try $0.read(at: 3),
                condition: try $0.read(at: 4),
                moved: try $0.read(at: 5),
                targetVersion: try $0.read(at: 6),
                firstRowID: try $0.read(at: 7),
                lastRowID: try $0.read(at: 8),
                undoStage: try $0.read(at: 9),
                undoWrites: try $0.read(at: 10),
                isDropped: try $0.read(Int64.self, at: 11) == 1,
                isDroppable: try $0.read(Int64.self, at: 12) == 1
            )
        }
    }

    /// Whether a file has the table of claims.
    static func exist(in schema: String, _ connection: Connection) throws -> Bool {
        try StateStore(connection: connection, schema: schema).exists("midstream_claims")
    }

    /// The target's file, by the path that the source stores for it.
    func targetFile() -> String { file(of: "main") }

    /// An attached file, by the path that the source stores for it.
    func file(of other: String) -> String {
        // Older versions of SQLite name a file by the link through which it was opened.
        let path = FilePath.resolved(connection.fileName(schema: other) ?? "")
        let source = connection.fileName(schema: migration.schema).map(FilePath.resolved) ?? path
        return FilePath.relative(path, toFolderOf: source)
    }

    /// Another target has claimed a table with the id of a move that is about to begin.
    struct NumberTaken: Error {}

    /// Whether the id of a move that is about to begin is also that of another target's move, which began in the same millisecond.
    func isTaken(_ record: TableRecord, among claims: [Claim]) -> Bool {
        claims.contains { claim in
            claim.id == record.id
                && !(SQLIdentifier.equal(claim.sourceTable, record.source)
                    && SQLIdentifier.equal(claim.targetTable, record.target)
                    && Self.isSame(claim.condition, record.condition)
                    && (claim.targetFile.hasSameBytes(as: targetFile()) || isStale(claim)))
        }
    }

    /// Claims one table: see `stake(_:)` of several.
    func stake(_ record: TableRecord) throws { try stake([record]) }

    /// Claims tables for a migration that the target already has stored, and creates the fences, in one transaction.
    func stake(_ records: [TableRecord]) throws {
        var known = Staked(isSameFile ? [] : try all())
        var fenced: Set<String> = []
        var fences: [SchemaRow] = []
        let file = targetFile()
        for record in records where try stake(record, of: file, among: &known) {
            let isFirst = fenced.insert(SQLIdentifier.lowercased(record.source)).inserted
            if isFirst || isSameFile { fences += try fence(record, of: file) }
        }
        try connection.create(fences, in: migration.schema)
    }

    /// The claims on tables of a file. There may be thousands, so they are found by id and by source table.
    struct Staked {
        private var byID: [Int64: Claim] = [:]
        private var bySource: [String: [Claim]] = [:]

        init(_ claims: [Claim]) {
            for claim in claims { append(claim) }
        }

        var isEmpty: Bool { byID.isEmpty }

        subscript(id: Int64) -> Claim? { byID[id] }

        func claims(on source: String) -> [Claim] { bySource[SQLIdentifier.lowercased(source)] ?? [] }

        mutating func append(_ claim: Claim) {
            byID[claim.id] = claim
            bySource[SQLIdentifier.lowercased(claim.sourceTable), default: []].append(claim)
        }

        /// Removes claims from those on a source table. They can still be found by their ids.
        mutating func forget(on source: String, where isForgotten: (Claim) throws -> Bool) rethrows {
            try bySource[SQLIdentifier.lowercased(source)]?.removeAll(where: isForgotten)
        }
    }

    /// Claims a table. The caller must then fence it.
    ///
    /// - Parameter claims: All claims of the source's file. The new one is added.
    /// - Returns: `false` if the table was claimed for this move before.
    private func stake(_ record: TableRecord, of file: String, among claims: inout Staked) throws -> Bool {
        if isSameFile {
            for other in try movedHere(from: record.source) where !other.isDropped { try checkDisjoint(record, other) }
            return true
        }
        if let same = claims[record.id] {
            guard !isTaken(record, among: [same]) else { throw NumberTaken() }
            return false
        }
        if claims.isEmpty {
            try connection.create(
                in: migration.schema,
                [
                    """
                    CREATE TABLE IF NOT EXISTS \(table)(
                        id INTEGER PRIMARY KEY, source_table TEXT NOT NULL, target_file TEXT NOT NULL,
                        target_table TEXT NOT NULL, condition TEXT, moved INTEGER, target_version INTEGER,
                        first_rowid INTEGER, last_rowid INTEGER, undo_stage INTEGER, undo_writes INTEGER,
                        dropped INTEGER NOT NULL DEFAULT 0, droppable INTEGER NOT NULL DEFAULT 0)
                    """
                ]
            )
        }
        for claim in claims.claims(on: record.source) {
            if try isOfFormer(claim) {
                // The claim's target may not have learnt yet that the table was dropped.
                try connection.execute("UPDATE \(table) SET source_table = '' WHERE id = ?", [claim.id])
            } else {
                try checkDisjoint(record, claim)
            }
        }
        try claims.forget(on: record.source, where: isOfFormer)
        try checkOwners(record, among: claims.claims(on: record.source))
        let tables = try tables(of: record)
        let rowIDs = try tables.flatMap(rowIDs)
        try connection.execute(
            """
            INSERT INTO \(table)(id, source_table, target_file, target_table, condition, first_rowid, last_rowid)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [record.id, record.source, file, record.target, record.condition, rowIDs?.first, rowIDs?.last]
        )
        if let tables, Self.isKnownByImplicitRowID(tables) { try keptRowIDs.keep(record.id) }
        claims.append(
            Claim(
                id: record.id,
                sourceTable: record.source,
                targetFile: file,
                targetTable: record.target,
                condition: record.condition,
                firstRowID: rowIDs?.first,
                lastRowID: rowIDs?.last
            )
        )
        return true
    }

    /// Whether a claim on a source table belongs to the table to which a table of the target has moved on, or may belong to one
    /// further on in that chain.
    ///
    /// - Parameter onward: See ``onward()``.
    func hasMovedOn(_ claim: Claim, _ source: String, _ wish: TableMigration, _ onward: [Claim]) -> Bool {
        guard SQLIdentifier.equal(claim.sourceTable, source) else { return false }
        let path = path(of: claim, in: migration.schema)
        return onward.contains { onward in
            guard SQLIdentifier.equal(onward.sourceTable, wish.name) else { return false }
            let isOver = onward.moved != nil && !onward.isDropped
            // The next file takes over only the moves that still have rows to come; the others end where they are. From there, rows
            // may have come back into another table of this file.
            let isWish =
                claim.targetFile.hasSameBytes(as: targetFile()) && SQLIdentifier.equal(claim.targetTable, wish.name)
            if isOver, !isWish, Self.isSame(claim.condition, wish.condition) { return true }
            guard SQLIdentifier.equal(onward.targetTable, claim.targetTable) else { return false }
            let other = self.path(of: onward, in: "main")
            // Once all rows have moved on, a file may have been moved without both files knowing it.
            return other.hasSameBytes(as: path) || isOver && (FilePath.isGone(path) || FilePath.isGone(other))
        }
    }

    /// Gives a claim to the table of another file, and makes the fence say so.
    ///
    /// - Parameters:
    ///   - record: The move as that file has stored it, or will.
    ///   - file: That file.
    ///   - others: The files that may own the claim by now.
    func assign(_ record: TableRecord, to file: String, among others: [String]) throws {
        guard let claim = try all().first(where: { $0.id == record.id }),
            others.contains(where: claim.targetFile.hasSameBytes)
        else {
            throw MigrationError(
                .foreignState,
                "source table \(record.source) of \(connection.fileName(schema: migration.schema) ?? "the source") "
                    + "belongs to neither \(others.joined(separator: " nor ")): one of the files was replaced, or is a "
                    + "copy. Open the files that belong together",
                table: record.target
            )
        }
        try connection.execute(
            "UPDATE \(table) SET target_file = ?1, target_table = ?2 WHERE id = ?3",
            [file, record.target, record.id]
        )
        try passFence(of: record, to: record, of: file)
    }

    /// Replaces the fence of a move by one that names the table into which rows are to be written from now on.
    private func passFence(of record: TableRecord, to other: TableRecord, of file: String) throws {
        let own = try fences(of: record.source).filter { $0.id == record.id }.map(\.name)
        guard !own.isEmpty else { return }
        for name in own { try connection.execute("DROP TRIGGER \(schema).\(SQLIdentifier.quoted(name))") }
        let view = "SELECT 1 FROM \(schema).sqlite_master WHERE type = 'view' AND name = ? COLLATE NOCASE"
        let isTable = try connection.fetchOne(view, [record.source]) == nil
        let fence = isTable ? try fence(other, of: file) : fence(other, "INSTEAD OF", of: file)
        try connection.create(fence, in: migration.schema)
    }

    /// Runs `body`, which writes only claims, in a transaction that is on the disk when the call returns.
    func write(_ body: () throws -> Void) throws {
        try connection.transaction {
            try WriteLock.take(connection, by: "midstream_claims", in: migration.schema)
            try body()
        }
        try connection.sync(schema: migration.schema)
    }

    /// Takes a claim back, if there is one. If no other claim on the table is left, its fence goes too; otherwise the fence is
    /// passed on.
    ///
    /// - Parameter claims: All claims of the file; `nil` if they have yet to be read.
    func withdraw(_ record: TableRecord, among claims: [Claim]? = nil) throws {
        // The fence is found by the move's id: a program without Midstream may have renamed the table.
        var fences = MoveSQL.guards.map { Self.fence($0, record) }
        if !isSameFile {
            let claims = try claims ?? all()
            if claims.isEmpty { return }
            try connection.execute("DELETE FROM \(table) WHERE id = ?", [record.id])
            try forgetRowIDs(of: record)
            let others = claims.filter { $0.id != record.id }
            if others.isEmpty { try connection.execute("DROP TABLE \(table)") }
            if let other = others.first(where: { SQLIdentifier.equal($0.sourceTable, record.source) }) {
                return try passFence(of: record, to: TableRecord(other, of: migration), of: other.targetFile)
            }
            // If another claim's table now has this name, keep that claim's fence.
            fences += try claimFences(of: record.source).filter { fence in !others.contains { $0.id == fence.id } }
                .map(\.name)
        }
        for name in Set(fences) {
            try connection.execute("DROP TRIGGER IF EXISTS \(schema).\(SQLIdentifier.quoted(name))")
        }
    }

    /// Withdraws the claims of targets whose files no longer exist, on tables that have not been dropped.
    ///
    /// - Returns: The source's tables.
    /// - Throws: ``MigrationError`` with code `misuse` if only targets that exist have claims.
    func releaseLost() throws -> [String] {
        guard try Self.exist(in: schema, connection) else { return [] }
        var released: [String] = []
        try write {
            var claims = try all()
            let kept = claims.filter { !$0.isDropped }
            let lost = kept.filter(isStale)
            if lost.isEmpty, let claim = kept.first {
                throw MigrationError(
                    .misuse,
                    "the target of source table \(claim.sourceTable) still exists: "
                        + "\(self.path(of: claim, in: migration.schema)). Open it, and either bring the rows back with "
                        + "cancelMigration or let them finish moving",
                    table: claim.targetTable
                )
            }
            for claim in lost {
                try withdraw(TableRecord(claim, of: migration), among: claims)
                claims.removeAll { $0.id == claim.id }
                if !released.contains(where: { SQLIdentifier.equal($0, claim.sourceTable) }) {
                    released.append(claim.sourceTable)
                }
            }
        }
        return released
    }

    /// Checks three things: the source is the one from which the table began to move, this target knows which rows have returned to
    /// the source, and the source's rows still have their rowids.
    ///
    /// - Complexity: O(log n).
    @discardableResult
    func confirm(_ record: TableRecord) throws -> Claim? {
        // A return changes rows, rowids and claim together, so one snapshot must have all. The target's snapshot is taken first, so
        // it is not newer.
        try connection.holdingSnapshots(of: ["main", schema]) {
            guard let claim = try confirmTarget(record) else { return nil }
            // If the source's table is gone, the connection that misses it reports that.
            if claim.stamp == nil, let now = try rowIDs(of: record) { try check(now, claim, record) }
            return claim
        }
    }

    /// Like `confirm(_:)`, without the check of the rowids. The caller has read the source's claims already, in a transaction that
    /// had read the target before.
    @discardableResult
    func confirm(_ record: TableRecord, among claims: [Int64: Claim]) throws -> Claim? {
        guard !isSameFile else { return nil }
        let claim = try own(claims[record.id], record)
        if claim.undoStage != nil || record.isReturning {
            try checkStage(claim, StateStore(connection: connection).table(record.id))
        }
        return claim
    }

    /// Checks that the source's rows still have the rowids that they had when the table began to move.
    func checkRowIDs(_ claim: Claim, _ record: TableRecord, of source: TableSchema, _ target: TableSchema) throws {
        guard claim.stamp == nil else { return }
        if let now = try target.hasRowID ? rowIDs(of: source) : .unknown { try check(now, claim, record) }
    }

    private func check(_ now: RowIDs, _ claim: Claim, _ record: TableRecord) throws {
        guard now.first == claim.firstRowID, now.last == claim.lastRowID else {
            throw MigrationError(
                .sourceChanged,
                "the rows of source table \(record.source) have other rowids than when table \(record.target) began to move: "
                    + "a VACUUM of \(path), or a write past its fence, has changed them. Restore the file as it was before",
                table: record.target
            )
        }
    }

    private var path: String { connection.fileName(schema: migration.schema) ?? "the source" }

    /// Checks that the source is the one from which the table began to move, and that this target knows which rows have returned to
    /// the source.
    func confirmTarget(_ record: TableRecord) throws -> Claim? {
        guard !isSameFile else { return nil }
        return try connection.holdingSnapshots(of: ["main", schema]) {
            let claim = try own(all(only: record.id).first, record)
            try checkStage(claim, StateStore(connection: connection).table(record.id))
            return claim
        }
    }

    private func own(_ claim: Claim?, _ record: TableRecord) throws -> Claim {
        guard let claim else { throw isOther(record) }
        if let stamp = claim.stamp { try checkUnchanged(since: stamp, record) }
        return claim
    }

    /// Checks that nobody has written a source without a fence. It has none since it could not be written.
    func checkUnchanged(since stamp: SourceStamp, _ record: TableRecord) throws {
        guard SourceStamp(of: path) != stamp else { return }
        throw MigrationError(
            .sourceChanged,
            "the file \(path), from which table \(record.target) is moving, was changed after the move began. It could "
                + "not be fenced then, so other programs can write it. Nothing is lost: restore the file as it was, "
                + "with its modification time @\(stamp.modified) (cp -p keeps it, and touch -d sets it)",
            table: record.target
        )
    }

    /// The error for a source that has no claim of the table.
    func isOther(_ record: TableRecord) -> MigrationError {
        MigrationError(
            .foreignState,
            "\(path) is not the file that table \(record.target) began to move from: restore the file that belongs to "
                + "this target",
            table: record.target
        )
    }

    /// Like `confirm(_:)`. Also checks that this target is not a copy of the one that the source's rows belong to. Call it in a
    /// transaction that writes the source.
    func confirmOwn(_ record: TableRecord) throws {
        if let claim = try confirm(record) { try checkOwner(claim) }
    }

    func checkOwner(_ claim: Claim) throws {
        guard claim.targetFile.hasSameBytes(as: targetFile()) || isLeftBehind(claim) else {
            throw MigrationError(
                .foreignState,
                "the source's rows belong to \(claim.targetFile). The open file, \(targetFile()), is a copy of it: "
                    + "open the original. The source is unchanged",
                table: claim.targetTable
            )
        }
    }

    /// The claim of a move that this target has stored.
    func claim(_ record: TableRecord) -> Claim {
        Claim(
            id: record.id,
            sourceTable: record.source,
            targetFile: targetFile(),
            targetTable: record.target,
            condition: record.condition
        )
    }

}

extension TableRecord {
    /// Makes the record of a move of which only the claim is left, as it was when the move began.
    init(_ claim: Claims.Claim, of migration: MigrationRecord) {
        self.init(
            id: claim.id,
            migration: migration.id,
            target: claim.targetTable,
            source: claim.sourceTable,
            condition: claim.condition,
            phase: .starting,
            copied: 0,
            settled: 0
        )
    }
}
