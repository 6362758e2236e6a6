internal import SQLText
internal import SQLiteConnection

/// What a source has that has not arrived in its target, and that would be lost with the source.
///
/// Every way to destroy a source asks here first: `Database.wipeSource`, `SourceRetirement.deleteFileWhenEmpty`, and
/// `SourceRetirement.drop` for the triggers of the table that it drops.
///
/// Indexes do not count, since they have no content of their own; nor do statistics of ANALYZE.
struct Remainder {
    /// One of the two files, as a connection has it attached.
    struct File {
        let connection: Connection
        /// The schema that the file is attached as.
        let schema: String

        fileprivate var quoted: String { SQLIdentifier.quoted(schema) }
        fileprivate var reader: SchemaReader { SchemaReader(connection: connection, schema: schema) }

        /// The tables, views and triggers of the file, except SQLite's own.
        fileprivate func objects(where condition: String = "1", _ arguments: [String] = []) throws -> [SchemaObject] {
            try connection.fetchAll(
                "SELECT type, name, tbl_name, sql FROM \(quoted).sqlite_master WHERE type IN ('table', 'view', 'trigger') "
                    + "AND sql IS NOT NULL AND (\(condition)) ORDER BY rowid",
                Arguments(arguments)
            ).compactMap { row in
                guard let type = SchemaObject.Kind(rawValue: try row.get(0)) else { return nil }
                return SchemaObject(type: type, name: try row.get(1), owner: try row.get(2), sql: try row.get(3))
            }.filter { !$0.name.hasPrefix("sqlite_") }
        }

        fileprivate func pragma(_ name: String) throws -> Int64 {
            try connection.fetchValue("PRAGMA \(quoted).\(name)") ?? 0
        }
    }

    let source: File
    let target: File
    /// The names that the caller gives up.
    let givenUp: SQLNameSet

    init(source: File, target: File, givingUp names: some Sequence<String>) {
        self.source = source
        self.target = target
        givenUp = SQLNameSet(names)
    }

    /// Words for what is left.
    static func words(_ objects: [UnmovedObject]) -> String { objects.map(\.description).joined(separator: ", ") }

    // MARK: A whole file

    /// What has not arrived, in the order in which it was created.
    ///
    /// - Parameter isEmptied: Whether the tables that have moved have been dropped as well, as they are before a file
    ///   is deleted. Then every table that is there counts.
    func objects(isEmptied: Bool = false) throws -> [UnmovedObject] {
        let own = try source.objects()
        let others = try target.objects()
        let claims = try Claims.all(in: source.quoted, source.connection) + unfencedClaims()
        // A file that has moved nothing into the target must be equal to the target. If it has moved something, the
        // application may have changed what has come.
        let isTied = claims.contains { $0.moved != nil && leadsToTarget($0) }
        let shadows = try ShadowTables(of: own, source.connection, source.schema)
        var left: [UnmovedObject] = []
        func add(_ kind: UnmovedObject.Kind, _ name: String, _ reason: String?) {
            guard let reason, !givenUp.contains(name) else { return }
            left.append(UnmovedObject(kind: kind, name: name, reason: reason))
        }
        for object in own where try !isEngines(object) {
            let kind = Self.kind(object)
            let same = others.first { other in
                SQLIdentifier.equal(other.name, object.name)
                    && (isTied
                        ? other.type == object.type && other.isVirtual == object.isVirtual : isEqual(object, other))
            }
            switch object.type {
            case .table where object.isVirtual:
                add(kind, object.name, try reasonOfVirtualTable(object, same))
            case .table where shadows.mayBeMade(object.name): continue
            case .table:
                add(kind, object.name, try reason(ofTable: object, same, claims, isEmptied: isEmptied))
            default:
                if object.type == .trigger, shadows.mayBeMade(object.owner) || givenUp.contains(object.owner) {
                    continue
                }
                if object.type == .view, isPlaceholder(object, own, claims) { continue }
                add(kind, object.name, same == nil ? Self.missing(kind, isTied) : nil)
            }
        }
        for name in Self.pragmas {
            let (value, arrived) = (try source.pragma(name), try target.pragma(name))
            let isThere = value == 0 || value == arrived || isTied && arrived != 0
            add(.pragma, name, isThere ? nil : Self.differing(value, arrived))
        }
        return left
    }

    /// What has no place in the target, so that it cannot come there together with the whole file. If nothing moves
    /// into the target yet, the target must have all objects, and they must be equal. Otherwise the target must have
    /// the tables, whose rows may be on their way.
    ///
    /// - Returns: Also whether anything has moved.
    func objectsWithoutPlace() throws -> (left: [UnmovedObject], isTied: Bool) {
        let own = try source.objects()
        let others = try target.objects()
        let claims = try Claims.all(in: source.quoted, source.connection)
        let ties = claims.filter(leadsToTarget)
        // All of the file is on its way. What has come to the source since then is reported in the end.
        if ties.contains(where: { $0.moved == nil }) { return ([], true) }
        let isTied = !ties.isEmpty
        let shadows = try ShadowTables(of: own, source.connection, source.schema)
        var left: [UnmovedObject] = []
        for object in own where try !isEngines(object) {
            if shadows.mayBeMade(object.type == .trigger ? object.owner : object.name) { continue }
            let kind = Self.kind(object)
            let isThere =
                if isTied {
                    kind != .table || givenUp.contains(object.name)
                        || claims.contains { SQLIdentifier.equal($0.sourceTable, object.name) }
                        || others.contains { $0.type == .table && SQLIdentifier.equal($0.name, object.name) }
                } else {
                    others.contains { SQLIdentifier.equal($0.name, object.name) && isEqual(object, $0) }
                }
            if isThere { continue }
            left.append(UnmovedObject(kind: kind, name: object.name, reason: Self.missing(kind, isTied)))
        }
        if isTied { return (left, true) }
        for name in Self.pragmas {
            let (value, other) = (try source.pragma(name), try target.pragma(name))
            if value == other { continue }
            left.append(UnmovedObject(kind: .pragma, name: name, reason: Self.differing(value, other)))
        }
        return (left, false)
    }

    private static let pragmas = ["user_version", "application_id"]

    private static func differing(_ value: Int64, _ other: Int64) -> String {
        "\(value) in the source, \(other) in the target"
    }

    private static func kind(_ object: SchemaObject) -> UnmovedObject.Kind {
        object.isVirtual ? .virtualTable : UnmovedObject.Kind(rawValue: object.type.rawValue) ?? .table
    }

    private static func missing(_ kind: UnmovedObject.Kind, _ isTied: Bool) -> String {
        "the target has no \(kind.rawValue) of that name" + (isTied ? "" : " with the same definition")
    }

    /// Whether Midstream has made an object, and nobody needs the object any more.
    private func isEngines(_ object: SchemaObject) throws -> Bool {
        switch object.type {
        case .table:
            if object.name == "midstream_claims" || object.name == OwnNames.upgrades
                || object.name == UnfencedClaims.table || object.name == KeptRowIDs.claimed
            {
                return true
            }
            return try object.name == Unreleased.table
                && !Unreleased.isNeeded(in: source.schema, source.connection)
        case .trigger: return OwnNames.has(.trigger, object.name, on: object.owner)
        default: return false
        }
    }

    private func isEqual(_ object: SchemaObject, _ other: SchemaObject) -> Bool {
        if object.type != other.type || object.isVirtual != other.isVirtual { return false }
        return object.type == .table
            ? CreateTable.words(object.sql).hasSameBytes(as: CreateTable.words(other.sql)) : object.isSame(as: other)
    }

    /// Whether a view stands in the place of a table that was dropped after all its rows had moved.
    private func isPlaceholder(_ view: SchemaObject, _ own: [SchemaObject], _ claims: [Claims.Claim]) -> Bool {
        claims.contains { $0.isDropped && SQLIdentifier.equal($0.sourceTable, view.name) }
            && own.contains {
                $0.type == .trigger && SQLIdentifier.equal($0.owner, view.name) && OwnNames.isFence($0.name)
            }
    }

    /// Whether a claim names the target, even if by a path that the target had before.
    private func leadsToTarget(_ claim: Claims.Claim) -> Bool {
        let file = source.connection.fileName(schema: source.schema) ?? ""
        let path = FilePath.absolute(claim.targetFile, fromFolderOf: file)
        if FilePath.isGone(path) { return true }
        return FilePath.identity(path) == target.connection.fileName(schema: target.schema).flatMap(FilePath.identity)
    }

    private func reason(
        ofTable object: SchemaObject,
        _ same: SchemaObject?,
        _ claims: [Claims.Claim],
        isEmptied: Bool
    ) throws -> String? {
        if isEmptied { return "it is still there" }
        let name = "\(source.quoted).\(SQLIdentifier.quoted(object.name))"
        // A table that was made anew under the name of a dropped one is another table.
        let own = claims.filter { SQLIdentifier.equal($0.sourceTable, object.name) && !$0.isDropped }
        if try source.connection.fetchOne("SELECT 1 FROM \(name) LIMIT 1") != nil {
            let moved = own.compactMap(\.moved)
            let count: Int64 = try source.connection.fetchValue("SELECT count(*) FROM \(name)") ?? 0
            let hasMoved = !own.isEmpty && moved.count == own.count && moved.reduce(0, +) >= count
            if !hasMoved { return "it has rows that have not moved" }
            // The rows may have been dropped in the target since, with their table.
            let hasGone = try own.contains { try $0.moved != 0 && leadsToTarget($0) && !hasRows($0.targetTable) }
            return hasGone ? "its rows have moved, and are not in the target any more" : nil
        }
        if own.contains(where: { $0.moved != nil }) { return nil }
        guard same != nil else { return "the target has no table of that name" }
        // A table without rows may have a counter all the same.
        guard let sequence = try AutoIncrement.sequence(of: object.name, in: source.schema, source.connection),
            try target.reader.table(object.name)?.isAutoIncrement == true
        else { return nil }
        let arrived = try AutoIncrement.sequence(of: object.name, in: target.schema, target.connection) ?? 0
        return arrived >= sequence ? nil : "its AUTOINCREMENT counter is larger than that of the target's table"
    }

    private func hasRows(_ table: String) throws -> Bool {
        guard try target.reader.table(table) != nil else { return false }
        let name = "\(target.quoted).\(SQLIdentifier.quoted(table))"
        return try target.connection.fetchOne("SELECT 1 FROM \(name) LIMIT 1") != nil
    }

    /// Virtual tables move only with a whole file. An application may have made a virtual table of its own in the
    /// target, and have filled it.
    private func reasonOfVirtualTable(_ object: SchemaObject, _ same: SchemaObject?) throws -> String? {
        guard let same else { return "the target has no virtual table of that name" }
        // A virtual table that reads its content from a table can be made anew from that table.
        let content = ContentTrigger.option("content", of: SQLScript(object.sql).outline())
        if let content, !content.isEmpty { return nil }
        if try VirtualTables(source.connection, source.schema).hasMoved(object.name) {
            // The virtual table may have been made anew in the target since.
            func isEmpty(_ file: File, _ name: String) -> Bool {
                let sql = "SELECT 1 FROM \(file.quoted).\(SQLIdentifier.quoted(name)) LIMIT 1"
                do { return try file.connection.fetchOne(sql) == nil } catch { return false }
            }
            let hasGone = isEmpty(target, same.name) && !isEmpty(source, object.name)
            return hasGone ? "its content has moved, and is not in the target any more" : nil
        }
        func count(_ file: File, _ name: String) throws -> Int64 {
            try file.connection.fetchValue("SELECT count(*) FROM \(file.quoted).\(SQLIdentifier.quoted(name))") ?? 0
        }
        guard let rows = try? count(source, object.name), let arrived = try? count(target, same.name) else {
            return "it cannot be read, so it cannot be compared with the target's table"
        }
        return arrived >= rows ? nil : "it has \(rows) rows, but the target's table has \(arrived)"
    }

    /// The claims on a source that could not be written. The target has them instead of the source. They hold for the
    /// file as it was then.
    private func unfencedClaims() throws -> [Claims.Claim] {
        guard let path = source.connection.fileName(schema: source.schema).map(FilePath.resolved),
            let file = target.connection.fileName(schema: target.schema).map(FilePath.resolved),
            let stamp = SourceStamp(of: path)
        else { return [] }
        let migration = MigrationRecord(id: 0, sourcePath: FilePath.relative(path, toFolderOf: file))
        return try UnfencedClaims(connection: target.connection, schema: target.quoted)
            .all(of: migration, targetFile: FilePath.relative(file, toFolderOf: path), at: path)
            .filter { $0.stamp == stamp }
    }

    // MARK: One table

    /// The triggers that would be dropped with a source table and have no counterpart in the target. A counterpart is a
    /// trigger of the same name, or a trigger on the target's table with the same words.
    func triggers(of record: TableRecord) throws -> [UnmovedObject] {
        let own = try source.reader.triggers(on: record.source).filter { !OwnNames.isTrigger($0.name) }.map {
            SchemaObject(type: .trigger, name: $0.name, owner: $0.table, sql: $0.sql)
        }
        if own.isEmpty { return [] }
        let others = try target.objects(where: "type = 'trigger'")
        let isSameFile = source.schema == target.schema
        return own.filter { trigger in
            !givenUp.contains(trigger.name)
                && !others.contains { other in
                    if SQLIdentifier.equal(other.name, trigger.name) { return !isSameFile }
                    return SQLIdentifier.equal(other.owner, record.target) && other.hasSameWords(as: trigger)
                }
        }.map { UnmovedObject(kind: .trigger, name: $0.name, reason: Self.missing(.trigger, true)) }
    }

    /// Why a source table with triggers stays that are not in the target; `nil` if the table may go.
    func reasonToKeep(_ record: TableRecord) throws -> String? {
        let left = try triggers(of: record).map { "trigger \($0.name)" }
        if left.isEmpty { return nil }
        return
            "\(left.joined(separator: ", ")) would be dropped with the table, and the target has no trigger of that "
            + "name: create it there, or give it up"
    }
}

extension MigrationRecord {
    /// What the source has that the target does not have, on a connection that has both attached.
    func remainder(_ connection: Connection) -> Remainder {
        Remainder(
            source: .init(connection: connection, schema: schema),
            target: .init(connection: connection, schema: "main"),
            givingUp: givenUp
        )
    }
}
