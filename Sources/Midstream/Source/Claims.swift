internal import SQLText
internal import SQLiteConnection

/// What a source file knows of the migrations that take its rows: which target claims which table, and the fence that
/// refuses writes by builds that do not know.
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
        /// The rows that have moved; `nil` until all have.
        var moved: Int64?
        /// The number of the target's schema when they had, which only grows.
        var targetVersion: Int64?
        /// The smallest and the largest rowid at the start, or since rows have returned. VACUUM gives rows other rowids if the
        /// table has no INTEGER PRIMARY KEY, and then one of the two changes, unless none does.
        var firstRowID: Int64?
        var lastRowID: Int64?
        /// The stage of the target's `Undo` that has last written the table; `nil` while no row has returned.
        var undoStage: Int64?
        /// How many of its transactions have written the table.
        var undoWrites: Int64?
        /// Whether the table has been dropped since all of it had moved. One of its name is another then.
        var isDropped = false
        /// Whether all of it has moved, and the table was kept for what may change, and not since it was to be kept: a later call
        /// may drop it.
        var isDroppable = false
        /// What the source's file looked like, where that cannot be written: then the claim is in the target alone.
        var stamp: SourceStamp?

        /// The table that takes the rows, in words.
        var destination: String { "table \(targetTable) of \(targetFile)" }
    }

    /// The claims on tables of the source. Those that lead to this target name it as it is named now: seen from another folder, a
    /// path that was written for a former one may do so by chance.
    ///
    /// - Parameter id: The only one that is wanted.
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

    /// The claims on tables of the source that are in the target alone.
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
    ///   - schema: What it is attached as, as SQL writes it.
    ///   - id: The only one that is wanted.
    static func all(in schema: String, _ connection: Connection, only id: Int64? = nil) throws -> [Claim] {
        // Another connection may drop the table once this one has seen that it is there.
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

    /// The target's file as the source names it.
    func targetFile() -> String { file(of: "main") }

    /// An attached file as the source names it.
    func file(of other: String) -> String {
        // Older versions of SQLite name a file by the links that it was opened through.
        let path = FilePath.resolved(connection.fileName(schema: other) ?? "")
        let source = connection.fileName(schema: migration.schema).map(FilePath.resolved) ?? path
        return FilePath.relative(path, toFolderOf: source)
    }

    /// Another target has claimed a table by the number of a move that is about to begin.
    struct NumberTaken: Error {}

    /// Whether the number of a move that is about to begin is that of another target's, which has begun in the same millisecond.
    func isTaken(_ record: TableRecord, among claims: [Claim]) -> Bool {
        claims.contains { claim in
            claim.id == record.id
                && !(SQLIdentifier.equal(claim.sourceTable, record.source)
                    && SQLIdentifier.equal(claim.targetTable, record.target)
                    && Self.isSame(claim.condition, record.condition)
                    && (claim.targetFile.hasSameBytes(as: targetFile()) || isStale(claim)))
        }
    }

    /// The same of one table.
    func stake(_ record: TableRecord) throws { try stake([record]) }

    /// Claims tables for a migration that the target already knows of, and puts up the fences, in one transaction.
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

    /// The claims on tables of a file, of which there may be thousands.
    private struct Staked {
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

        /// Takes the name from claims.
        mutating func forget(on source: String, where isForgotten: (Claim) throws -> Bool) rethrows {
            try bySource[SQLIdentifier.lowercased(source)]?.removeAll(where: isForgotten)
        }
    }

    /// Claims a table, which has yet to be fenced then.
    ///
    /// - Parameter claims: All of the source's file, which this one comes to.
    /// - Returns: `false` where it was claimed before.
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
                // Its target may have yet to learn that it was dropped.
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

    /// Whether a claim on a source table belongs to the table that a table of the target has moved on to, or that may have moved on
    /// from there.
    ///
    /// - Parameter onward: See ``onward()``.
    func hasMovedOn(_ claim: Claim, _ source: String, _ wish: TableMigration, _ onward: [Claim]) -> Bool {
        guard SQLIdentifier.equal(claim.sourceTable, source) else { return false }
        let path = path(of: claim, in: migration.schema)
        return onward.contains { onward in
            guard SQLIdentifier.equal(onward.sourceTable, wish.name) else { return false }
            let isOver = onward.moved != nil && !onward.isDropped
            // The next file takes over what rows are to come from, and leaves the rest to end where it is. From there they may
            // have come back into another table of this one.
            let isWish =
                claim.targetFile.hasSameBytes(as: targetFile()) && SQLIdentifier.equal(claim.targetTable, wish.name)
            if isOver, !isWish, Self.isSame(claim.condition, wish.condition) { return true }
            guard SQLIdentifier.equal(onward.targetTable, claim.targetTable) else { return false }
            let other = self.path(of: onward, in: "main")
            // When all has moved on, a file may have got another path than one of them knows.
            return other.hasSameBytes(as: path) || isOver && (FilePath.isGone(path) || FilePath.isGone(other))
        }
    }

    /// Has a claim belong to the table of another file, with a fence that says so.
    ///
    /// - Parameters:
    ///   - record: The move as that file has it, or is to have it.
    ///   - file: That file.
    ///   - others: Whose it may be by now.
    func assign(_ record: TableRecord, to file: String, among others: [String]) throws {
        guard let claim = try all().first(where: { $0.id == record.id }),
            others.contains(where: claim.targetFile.hasSameBytes)
        else {
            throw MigrationError(
                .foreignState,
                "source table \(record.source) of \(connection.fileName(schema: migration.schema) ?? "the source") belongs to "
                    + "neither of \(others.joined(separator: " and ")): one of the files was replaced, or is a copy. "
                    + "Open the files that belong together",
                table: record.target
            )
        }
        try connection.execute(
            "UPDATE \(table) SET target_file = ?1, target_table = ?2 WHERE id = ?3",
            [file, record.target, record.id]
        )
        try passFence(of: record, to: record, of: file)
    }

    /// Has a fence that a move has made say where the rows are to be written from now on.
    private func passFence(of record: TableRecord, to other: TableRecord, of file: String) throws {
        let own = try fences(of: record.source).filter { $0.id == record.id }.map(\.name)
        guard !own.isEmpty else { return }
        for name in own { try connection.execute("DROP TRIGGER \(schema).\(SQLIdentifier.quoted(name))") }
        let view = "SELECT 1 FROM \(schema).sqlite_master WHERE type = 'view' AND name = ? COLLATE NOCASE"
        let isTable = try connection.fetchOne(view, [record.source]) == nil
        let fence = isTable ? try fence(other, of: file) : fence(other, "INSTEAD OF", of: file)
        try connection.create(fence, in: migration.schema)
    }

    /// Writes the claims alone, in a transaction that is on the disk when it returns.
    func write(_ body: () throws -> Void) throws {
        try connection.transaction {
            try WriteLock.take(connection, by: "midstream_claims", in: migration.schema)
            try body()
        }
        try connection.sync(schema: migration.schema)
    }

    /// Takes a claim back, if there is one, with its fence if nobody else has a claim to the table.
    ///
    /// - Parameter claims: All of the file; `nil` where they have yet to be read.
    func withdraw(_ record: TableRecord, among claims: [Claim]? = nil) throws {
        // It has another name where a program without Midstream has renamed the table.
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
            // Another's is there where its table has got this one's name.
            fences += try claimFences(of: record.source).filter { fence in !others.contains { $0.id == fence.id } }
                .map(\.name)
        }
        for name in Set(fences) {
            try connection.execute("DROP TRIGGER IF EXISTS \(schema).\(SQLIdentifier.quoted(name))")
        }
    }

    /// Withdraws the claims of targets whose files are not there any more, for tables that have not been dropped.
    ///
    /// - Returns: The source's tables.
    /// - Throws: ``MigrationError`` with code `misuse` where a target that is there has claims, and no other one has.
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
                    "the target of source table \(claim.sourceTable) is there: \(self.path(of: claim, in: migration.schema)). Open that file, "
                        + "and bring the rows back by cancelMigration, or let them move",
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

    /// Makes sure that the source is the one that a table began to move from, that this target has seen which rows returned to
    /// it, and that its rows have the rowids that they had then.
    ///
    /// - Complexity: O(log n).
    @discardableResult
    func confirm(_ record: TableRecord) throws -> Claim? {
        // Rows that return change all of it at once. The target's snapshot is not the newer one.
        try connection.holdingSnapshots(of: ["main", schema]) {
            guard let claim = try confirmTarget(record) else { return nil }
            // A table that is gone is told of when a connection misses it.
            if claim.stamp == nil, let now = try rowIDs(of: record) { try check(now, claim, record) }
            return claim
        }
    }

    /// The same but for the rowids, where the claims on the source's tables have been read already, in a transaction that had
    /// read the target before them.
    @discardableResult
    func confirm(_ record: TableRecord, among claims: [Int64: Claim]) throws -> Claim? {
        guard !isSameFile else { return nil }
        let claim = try own(claims[record.id], record)
        if claim.undoStage != nil || record.undoStage != nil {
            try checkStage(claim, StateStore(connection: connection).table(record.id))
        }
        return claim
    }

    /// Makes sure that a source's rows have the rowids that they had when its table began to move.
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

    /// Makes sure that the source is the one that a table began to move from, and that this target has seen which rows
    /// returned to it.
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

    /// Makes sure that nobody has written a source that has no fence, since nobody could.
    func checkUnchanged(since stamp: SourceStamp, _ record: TableRecord) throws {
        guard SourceStamp(of: path) != stamp else { return }
        throw MigrationError(
            .sourceChanged,
            "the file \(path), from which table \(record.target) is moving, has been changed since that began. It could not be written "
                + "then, so that nothing keeps other programs from it. Nothing is lost: put the file back as it was, with the time "
                + "of its last modification, which was @\(stamp.modified) (cp -p keeps it, and touch -d sets it)",
            table: record.target
        )
    }

    /// What is told of a source that has no claim of a table's.
    func isOther(_ record: TableRecord) -> MigrationError {
        MigrationError(
            .foreignState,
            "\(path) is not the file that table \(record.target) began to move from: restore the one that belongs to "
                + "this target",
            table: record.target
        )
    }

    /// The same, and that this target is not a copy of the one that the source's rows belong to. In a transaction that
    /// writes the source.
    func confirmOwn(_ record: TableRecord) throws {
        if let claim = try confirm(record) { try checkOwner(claim) }
    }

    func checkOwner(_ claim: Claim) throws {
        guard claim.targetFile.hasSameBytes(as: targetFile()) || isLeftBehind(claim) else {
            throw MigrationError(
                .foreignState,
                "the source's rows belong to \(claim.targetFile), and the file that is open, \(targetFile()), is a "
                    + "copy: open the original. The source is left as it is",
                table: claim.targetTable
            )
        }
    }

    /// The smallest and the largest rowid of a table, where its rows are known by that and no column has it; nothing when it is gone,
    /// or the page that one of them is on is damaged.
    func rowIDs(of record: TableRecord) throws -> RowIDs? { try tables(of: record).flatMap(rowIDs) }

    private func rowIDs(_ tables: (source: TableSchema, target: TableSchema?)) throws -> RowIDs? {
        guard tables.target?.hasRowID ?? true else { return .unknown }
        return try rowIDs(of: tables.source)
    }

    /// The tables of a move as they are; `nil` where the source's is gone.
    private func tables(of record: TableRecord) throws -> (source: TableSchema, target: TableSchema?)? {
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { return nil }
        return (source, try SchemaReader(connection: connection, schema: "main").table(record.target))
    }

    func rowIDs(of source: TableSchema) throws -> RowIDs? {
        // No VACUUM changes those that a column has.
        guard source.hasRowID, source.rowIDColumn == nil else { return .unknown }
        let (key, from) = (source.rowIDName ?? "rowid", "\(schema).\(SQLIdentifier.quoted(source.name))")
        do {
            // Both in one statement: it is prepared for each table of a connection that is opened.
            let ends: [RowIDs] = try connection.mapRows(
                once: "SELECT (SELECT min(\(key)) FROM \(from)), (SELECT max(\(key)) FROM \(from))"
            ) { row in
                row.isNull(at: 0) ? RowIDs.none : RowIDs(first: row.int64(at: 0), last: row.int64(at: 1))
            }
            return ends.first ?? RowIDs.none
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            return nil
        }
    }

    /// Keeps VACUUM out of the source's file, where that is another than the target's.
    private var keptRowIDs: KeptRowIDs {
        KeptRowIDs(connection: connection, schema: schema, table: KeptRowIDs.claimed)
    }

    private func forgetRowIDs(of record: TableRecord) throws {
        try keptRowIDs.forget(record.id)
        try keptRowIDs.dropUnneeded()
    }

    /// Whether the engine tells the source's rows by rowids that are no column's.
    private static func isKnownByImplicitRowID(_ tables: (source: TableSchema, target: TableSchema?)) -> Bool {
        tables.source.hasRowID && tables.source.rowIDColumn == nil && tables.target?.hasRowID ?? true
    }

    /// What the claim of a record of this target says.
    func claim(_ record: TableRecord) -> Claim {
        Claim(
            id: record.id,
            sourceTable: record.source,
            targetFile: targetFile(),
            targetTable: record.target,
            condition: record.condition
        )
    }

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
    private func isLeftBehind(_ claim: Claim) -> Bool { claim.moved != nil && isStale(claim) }

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
    private func path(of claim: Claim, in schema: String) -> String {
        FilePath.absolute(claim.targetFile, fromFolderOf: connection.fileName(schema: schema) ?? "")
    }

    /// What the trigger of a fence is called.
    private static func fence(_ event: String, _ record: TableRecord) -> String {
        "midstream_fence_\(event)_\(record.id)"
    }

    private func fence(_ record: TableRecord, of file: String? = nil) throws -> [SchemaRow] {
        // A fence is enough for a table that others take. In the target's own file, where there are no claims, a fence
        // that stays is what tells that the table has moved.
        if try !isSameFile && !claimFences(of: record.source).isEmpty { return [] }
        return fence(record, "BEFORE", of: file ?? targetFile(), isSameFile ? Self.part(record) : "")
    }

    private func fence(
        _ record: TableRecord,
        _ time: String,
        of file: String,
        _ part: String = ""
    ) -> [SchemaRow] {
        MoveSQL.guards.map { event in
            .trigger(
                Self.fence(event, record),
                on: record.source,
                "\(time) \(event.uppercased()) ON \(SQLIdentifier.quoted(record.source)) BEGIN "
                    + "SELECT RAISE(ABORT, \(Self.message(record, file)))\(part); END"
            )
        }
    }

    /// What a fence in the target's own file tells besides: which rows, for which table, and whether theirs is to be kept.
    private static func part(_ record: TableRecord) -> String {
        ", \(SQLLiteral.quoted(record.target)), \(record.condition.map(SQLLiteral.quoted) ?? "NULL"), "
            + (record.retirement == .keep ? "1" : "0")
    }

    /// What its fences tell of tables of the target's own file, which are there while rows move, and stay with the table.
    ///
    /// - Parameters:
    ///   - table: The only one that is wanted.
    ///   - moving: The tables that have yet to arrive, and are left out.
    func movedHere(from table: String? = nil, besides moving: [TableRecord] = []) throws -> [Claim] {
        let ids = Set(moving.filter { $0.phase != .done }.map(\.id))
        return try Self.fences(of: table, in: "main", connection).compactMap { fence in
            Self.claim(of: fence, targetFile: targetFile()).flatMap { ids.contains($0.id) ? nil : $0 }
        }
    }

    /// The claims of other files on tables of the target; those on a table to which others went within the file, and stayed, are
    /// on these too.
    func onward() throws -> [Claim] {
        let here = try movedHere()
        var all = try Set(Self.all(in: "main", connection))
        var found = all
        while !found.isEmpty {
            found = Set(
                here.flatMap { hop in
                    found.filter { SQLIdentifier.equal($0.sourceTable, hop.targetTable) }.map { claim in
                        var claim = claim
                        claim.sourceTable = hop.sourceTable
                        return claim
                    }
                }
            ).subtracting(all)
            all.formUnion(found)
        }
        return Array(all)
    }

    /// What the fence of a move within a file tells: each move has three of them.
    private static func claim(of fence: Fence, targetFile: String) -> Claim? {
        guard fence.name.hasPrefix("midstream_fence_insert_"), let id = fence.id else { return nil }
        let strings = fence.strings
        // Those of other files have claims for it.
        guard strings.count > 1 else { return nil }
        return Claim(
            id: id,
            sourceTable: fence.table,
            targetFile: targetFile,
            targetTable: strings[1],
            condition: strings.count > 2 ? strings[2] : nil,
            moved: 0,
            isDroppable: !fence.sql.hasSuffix(", 1; END")
        )
    }

    /// A trigger that refuses writes to a source table.
    struct Fence {
        var name: String
        var table: String
        var sql: String

        /// The number of the move that it was put up by.
        var id: Int64? { name.utf8.lastIndex(of: UInt8(ascii: "_")).flatMap { Int64(name[$0...].dropFirst()) } }

        /// The texts in its program: what it says, and in the target's own file what it tells besides.
        var strings: [String] {
            let bytes = Array(sql.utf8)
            return SQLTokenizer(sql).filter { $0.kind == .string }.map {
                SQLIdentifier.unquoted(String(decoding: bytes[$0.range], as: UTF8.self))
            }
        }
    }

    /// The fences of a file.
    ///
    /// - Parameter table: The source table that they are on; `nil` for all.
    static func fences(of table: String? = nil, in schema: String, _ connection: Connection) throws -> [Fence] {
        if let table {
            return try SchemaReader(connection: connection, schema: SQLIdentifier.unquoted(schema)).triggers(on: table)
                .filter { OwnNames.isFence($0.name) }.map { Fence(name: $0.name, table: $0.table, sql: $0.sql) }
        }
        return try connection.fetchAll(
            "SELECT name, tbl_name, sql FROM \(schema).sqlite_master WHERE type = 'trigger' AND name LIKE "
                + "'midstream\\_fence\\_%' ESCAPE '\\'"
        ).map { Fence(name: try $0.get(0), table: try $0.get(1), sql: try $0.get(2)) }.filter {
            OwnNames.isTrigger($0.name)
        }
    }

    private func fences(of source: String) throws -> [Fence] {
        try Self.fences(of: source, in: schema, connection)
    }

    /// The tables of the source's file that fences are on, by the numbers of the moves which have put these up.
    func fencedTables() throws -> [Int64: String] {
        let fences = try connection.mapRows(
            "SELECT name, tbl_name FROM \(schema).sqlite_master WHERE type = 'trigger' AND name LIKE "
                + "'midstream\\_fence\\_%' ESCAPE '\\'"
        ) { Fence(name: try $0.read(at: 0), table: try $0.read(at: 1), sql: "") }
        let tables = fences.compactMap { fence -> (Int64, String)? in
            guard OwnNames.isTrigger(fence.name) else { return nil }
            return fence.id.map { ($0, fence.table) }
        }
        return Dictionary(tables) { first, _ in first }
    }

    /// Makes sure that the source's table of a move is the one that was fenced, and none that has got its name: a fence goes with
    /// the table when another program renames that. A table that was made anew has none.
    ///
    /// - Parameters:
    ///   - fenced: See ``fencedTables()``.
    ///   - claims: All of the source's file.
    func checkFence(_ record: TableRecord, _ fenced: [Int64: String], among claims: [Claim]) throws {
        try checkFence(record, among: claims) { fenced[$0] }
    }

    /// - Parameter fenced: The table that the fence of a move is on.
    private func checkFence(
        _ record: TableRecord,
        among claims: @autoclosure () throws -> [Claim],
        _ fenced: (Int64) throws -> String?
    ) throws {
        var tables = try fenced(record.id).map { [$0] } ?? []
        if tables.isEmpty {
            // Where several take a table's rows, it has the fence of one of them.
            tables = try claims().filter { SQLIdentifier.equal($0.sourceTable, record.source) && !$0.isDropped }
                .compactMap { try fenced($0.id) }
        }
        guard let other = tables.first, !tables.contains(where: { SQLIdentifier.equal($0, record.source) }) else {
            return
        }
        throw MigrationError(
            .sourceChanged,
            "source table \(record.source), from which table \(record.target) is moving, was renamed to \(other) by a program "
                + "without Midstream, and another table has its name: rename both tables back",
            table: record.target
        )
    }

    /// The same, of what there is now.
    func checkFence(_ record: TableRecord) throws {
        guard let known = try connection.knownSchema(migration.schema) else {
            return try checkFence(record, fencedTables(), among: isSameFile ? [] : all())
        }
        try checkFence(record, among: isSameFile ? [] : all()) { id in
            MoveSQL.guards.lazy.flatMap { known.objects(named: "midstream_fence_\($0)_\(id)") }
                .first { $0.type == "trigger" }?.table
        }
    }

    /// Those for tables of other files, which go with the last claim.
    private func claimFences(of source: String) throws -> [Fence] {
        try fences(of: source).filter { $0.strings.count == 1 }
    }

    private static func message(_ record: TableRecord, _ target: String) -> String {
        SQLLiteral.quoted(beginning(record.source, record.target) + "\(target): write it there")
    }

    private static func beginning(_ source: String, _ target: String) -> String {
        "table \(source) is moving to table \(target) of "
    }

    /// Records that all rows of a claim have moved, and drops the table when no row of it is anybody's any more.
    ///
    /// One transaction of the source, which checks in itself that the claim is this very target's: a copy of the target,
    /// or one restored from a backup, must not take the rows from under the original.
    ///
    /// - Parameters:
    ///   - isDamaged: Whether SQLite cannot drop the table, since a page of it or of an index is damaged.
    ///   - reason: Why the table is to be kept; `nil` where nothing but what is found here keeps it.
    ///   - claims: All of the file, of which this one changes.
    /// - Returns: Why the table was kept, or `nil` when it is gone.
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
                    + "another file, or restored from a backup. It is left as it is: restore source and target "
                    + "together",
                table: record.target
            )
        }
        try checkStage(claim, record)
        try checkOwner(claim)
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            // It was dropped before, and the target could not be told; or another program has dropped or renamed it.
            return claim.moved == nil ? try releaseMissing(record, moved: moved, among: claims) : nil
        }
        // What has been made anew since then is none of this move's.
        if claim.isDropped { return nil }
        try checkFence(record)
        try noteMoved(record, moved)
        for index in claims.indices where claims[index].id == record.id { claims[index].moved = moved }
        // What had yet to come into it came into the target.
        try StateStore(connection: connection, schema: migration.schema).removeMoves(into: record.source)
        // What was kept since it was to be is not dropped by who says something else later, nor with rows of others.
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

    /// Why a table stays all of whose rows that a move was to take have moved; `nil` when nobody needs it any more.
    ///
    /// - Parameter isLate: Whether it has stayed since its rows have moved, so that rows may have come past its fence.
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
                "the rows that have moved to table \(other.targetTable) are not there any more: drop it yourself if they are not needed"
        }
        if try claimFences(of: record.source).isEmpty {
            return "its fence is gone, so that rows may have come since: drop it yourself if it is not needed"
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

    /// The claim of a table whose rows have come from the same one, and for which that is to be kept.
    private func keeping(_ record: TableRecord, among claims: [Claim]) -> Claim? {
        claims.first { claim in
            claim.id != record.id && claim.moved != nil && !claim.isDroppable
                && SQLIdentifier.equal(claim.sourceTable, record.source)
        }
    }

    /// Whether a table of this target that took rows of a source with others has none any more, or has gone.
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
            [rows, StateStore.schemaVersion(connection), record.id]
        )
        try forgetRowIDs(of: record)
    }

    /// Where a table has another name by now, its fence has gone with it.
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

    /// Drops the table and leaves a view in its place, so that an old build that would create it anew does not write
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

extension TableRecord {
    /// A move of which there is but its claim: as it was when it began.
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
