internal import SQLText
internal import SQLiteConnection

// The triggers by which a source refuses writes, and says whose its rows are.
extension Claims {
    /// What the trigger of a fence is called.
    static func fence(_ event: String, _ record: TableRecord) -> String {
        "midstream_fence_\(event)_\(record.id)"
    }

    func fence(_ record: TableRecord, of file: String? = nil) throws -> [SchemaRow] {
        // A fence is enough for a table that others take. In the target's own file, where there are no claims, a fence
        // that stays is what tells that the table has moved.
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
    static func claim(of fence: Fence, targetFile: String) -> Claim? {
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

    func fences(of source: String) throws -> [Fence] {
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
