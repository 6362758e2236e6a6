internal import SQLText
internal import SQLiteConnection

// The triggers by which a source refuses writes and says to whom its rows belong.
extension Claims {
    /// The name of a fence's trigger.
    static func fence(_ event: String, _ record: TableRecord) -> String {
        "midstream_fence_\(event)_\(record.id)"
    }

    func fence(_ record: TableRecord, of file: String? = nil) throws -> [SchemaRow] {
        // One fence is enough for a table that several targets take. Within the target's own file there are no claims: there, a
        // fence that stays shows that the table has moved.
        if try !isSameFile && !claimFences(of: record.source).isEmpty { return [] }
        return fence(record, "BEFORE", of: file ?? targetFile(), isSameFile ? Self.part(record) : "")
    }

    func fence(
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

    /// What a fence in the target's own file says besides its message: the target's table, the condition, and whether the source's
    /// table is to be kept.
    private static func part(_ record: TableRecord) -> String {
        ", \(SQLLiteral.quoted(record.target)), \(record.condition.map(SQLLiteral.quoted) ?? "NULL"), "
            + (record.retirement == .keep ? "1" : "0")
    }

    /// The moves within the target's own file, as their fences tell of them. A fence exists while rows move, and as long as the
    /// table stays.
    ///
    /// - Parameters:
    ///   - table: The only source table that is wanted; `nil` for all.
    ///   - moving: Moving tables. Those that are not done are left out.
    func movedHere(from table: String? = nil, besides moving: [TableRecord] = []) throws -> [Claim] {
        let ids = Set(moving.filter { $0.phase != .done }.map(\.id))
        return try Self.fences(of: table, in: "main", connection).compactMap { fence in
            Self.claim(of: fence, targetFile: targetFile()).flatMap { ids.contains($0.id) ? nil : $0 }
        }
    }

    /// The claims of other files on tables of the target. If a table moved to a claimed table within the file, and stayed, the
    /// claim counts for that table too.
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

    /// The move within a file of which a fence tells; `nil` unless it is the INSERT trigger, since each move has three.
    static func claim(of fence: Fence, targetFile: String) -> Claim? {
        guard fence.name.hasPrefix("midstream_fence_insert_"), let id = fence.id else { return nil }
        let strings = fence.strings
        // A fence of a move to another file has one string only; there is a claim for it.
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

        /// The id of the move that created the fence.
        var id: Int64? { name.utf8.lastIndex(of: UInt8(ascii: "_")).flatMap { Int64(name[$0...].dropFirst()) } }

        /// The strings in the trigger's program: the message, and in the target's own file what follows it.
        var strings: [String] {
            let bytes = Array(sql.utf8)
            return SQLTokenizer(sql).filter { $0.kind == .string }.map {
                SQLIdentifier.unquoted(String(decoding: bytes[$0.range], as: UTF8.self))
            }
        }
    }

    /// The fences of a file.
    ///
    /// - Parameter table: The only source table that is wanted; `nil` for all.
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

    func fences(of source: String) throws -> [Fence] {
        try Self.fences(of: source, in: schema, connection)
    }

    /// The tables of the source's file that have fences, by the ids of the moves that created the fences.
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

    /// Checks that the source's table of a move is the one that was fenced, and not another that has taken its name. When another
    /// program renames a table, the fence goes with the table. A table that was created anew has no fence.
    ///
    /// - Parameters:
    ///   - fenced: See ``fencedTables()``.
    ///   - claims: All claims of the source's file.
    func checkFence(_ record: TableRecord, _ fenced: [Int64: String], among claims: [Claim]) throws {
        try checkFence(record, among: claims) { fenced[$0] }
    }

    /// - Parameter fenced: Finds the table that has the fence of a move.
    private func checkFence(
        _ record: TableRecord,
        among claims: @autoclosure () throws -> [Claim],
        _ fenced: (Int64) throws -> String?
    ) throws {
        var tables = try fenced(record.id).map { [$0] } ?? []
        if tables.isEmpty {
            // If several targets take a table's rows, the table has the fence of one of them.
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

    /// Like `checkFence(_:_:among:)`, with the present fences and claims.
    func checkFence(_ record: TableRecord) throws {
        guard let known = try connection.knownSchema(migration.schema) else {
            return try checkFence(record, fencedTables(), among: isSameFile ? [] : all())
        }
        try checkFence(record, among: isSameFile ? [] : all()) { id in
            MoveSQL.guards.lazy.flatMap { known.objects(named: "midstream_fence_\($0)_\(id)") }
                .first { $0.type == "trigger" }?.table
        }
    }

    /// The fences of moves to other files. They are dropped with the last claim.
    func claimFences(of source: String) throws -> [Fence] {
        try fences(of: source).filter { $0.strings.count == 1 }
    }

    private static func message(_ record: TableRecord, _ target: String) -> String {
        SQLLiteral.quoted(beginning(record.source, record.target) + "\(target): write it there")
    }

    private static func beginning(_ source: String, _ target: String) -> String {
        "table \(source) is moving to table \(target) of "
    }
}
