internal import SQLText
internal import SQLiteConnection

/// Two moves, the second of which begins before the first has ended: A moves to B, and B now moves to C.
///
/// The first move goes on as a move of A to C, with its watermark and ledger: the rows that these call settled are in B, and come
/// from B. So C has two sources, and nothing has to wait for B to be whole.
struct Chain {
    /// The move of A to B.
    let first: TableRecord
    /// The migration from the file of A, as the file of C stores it.
    let origin: MigrationRecord
    let a: TableSchema
    let b: TableSchema
    /// The move of B to C.
    let second: TableRecord
    let c: TableSchema

    /// Makes the first move go on as the move of A to C, in the open transaction.
    func store(_ joined: TableRecord, in store: StateStore) throws {
        let connection = store.connection
        for trigger in MoveSQL.dropTriggers(joined.id) { try connection.execute(trigger) }
        try connection.execute("DELETE FROM main.midstream_columns WHERE id = ?", [joined.id])
        try store.save(joined)
        let sql = sql(joined)
        if c.isAutoIncrement, let largest = try AutoIncrement.largest(of: sql, connection) {
            try AutoIncrement.raise(of: c.name, in: "main", to: largest, connection)
        }
        let rowIDs = KeptRowIDs(connection: connection)
        try sql.keepsRowIDs ? rowIDs.keep(joined.id) : rowIDs.forget(joined.id)
        try connection.create(sql.triggers(of: c), in: "main")
    }

    /// Copies what the file of B stores of the first move, if that file is not the file of C.
    func copyState(_ joined: TableRecord, from schema: String, to store: StateStore) throws {
        let connection = store.connection
        try store.save(origin)
        let sql = sql(joined)
        try connection.create(in: "main", sql.createTables)
        for table in sql.key.isRowID ? [joined.ledger] : [joined.ledger, joined.watermarkTable] {
            try connection.execute("INSERT INTO main.\(table) SELECT * FROM \(schema).\(table)")
        }
    }

    /// Makes sure that no row of C, or of another source of C, has the key of a pending row of A. The ledger and the watermark
    /// must be C's by now.
    func checkCollisions(_ joined: TableRecord, with others: [MoveSQL], _ connection: Connection) throws {
        let sql = sql(joined)
        let compatibility = Compatibility(connection: connection, target: c, source: a, sql: sql, others: others)
        try compatibility.checkColumns()
        try compatibility.checkCollisions(of: sql.isPending(after: joined.watermark))
        try compatibility.checkCollisionsWithOthers()
        try beginning(joined, on: connection).checkExpressions(of: sql.isPending(after: joined.watermark))
    }

    /// The first move as the beginning of a move that goes on to C.
    func beginning(_ joined: TableRecord, on connection: Connection) -> Beginning {
        Beginning(joined, origin, target: c, source: a, on: connection)
    }

    private func sql(_ joined: TableRecord) -> MoveSQL {
        MoveSQL(record: joined, migration: origin, target: c, source: a)
    }

    /// The move of A to C; `nil` if SQL cannot express this move exactly, so that the first move must end before.
    func joined() -> TableRecord? {
        guard second.condition == nil, !first.firesTriggers else { return nil }
        // The checksum is of rows as they are in B.
        guard first.verification != .complete || first.watermark == nil else { return nil }
        let outer = MappedColumns(target: c, source: b, records: second.columns)
        guard hasSameKey(outer), c.uniqueIndexes.allSatisfy({ isUniqueInB($0, outer) }) else { return nil }
        let inner = MappedColumns(target: b, source: a, records: first.columns)
        let origins = Dictionary(second.columns.map { (SQLIdentifier.lowercased($0.name), $0.origin) }) { first, _ in
            first
        }
        var joined = first
        joined.migration = origin.id
        joined.destination = nil
        joined.target = second.target
        joined.firesTriggers = second.firesTriggers
        joined.refusedRows = second.refusedRows
        joined.unreadableRows = second.unreadableRows
        joined.verification =
            second.verification == .complete && first.watermark != nil ? .batches : second.verification
        joined.columns = []
        for column in c.columns {
            let origin: ColumnRecord.Origin
            switch origins[SQLIdentifier.lowercased(column.name)] ?? .column(column.name) {
            case .column(let name):
                if let index = b.columnIndex(name) {
                    origin = Self.origin(inner[index], of: a)
                } else if MappedColumns.isRowIDName(name), b.rowIDColumn == nil, a.hasRowID,
                    a.columnIndex("rowid") == nil
                {
                    origin = .column("rowid")
                } else {
                    return nil
                }
            case .expression(let text):
                let operands = MappedColumns.operands(of: text, in: b)
                // Nothing checks the pending rows for a text that a date function takes for the present.
                guard ExpressionShape.names(in: text).isDisjoint(with: MappedColumns.rowIDNames),
                    ConnectionTerms(text, of: b).timeColumns.isEmpty,
                    let expression = inner.substituted(text, on: operands, of: b)
                else { return nil }
                origin = .expression(expression)
            case .left:
                return nil
            }
            if case .column(let name) = origin, SQLIdentifier.equal(name, column.name) { continue }
            joined.columns.append(ColumnRecord(name: column.name, origin: origin))
        }
        joined.columns += ColumnRecord.left(of: a, in: c) + [.joined]
        // The watermark and the ledger have keys of A as the first move reads them.
        let keys = [(b, inner), (c, MappedColumns(target: c, source: a, records: joined.columns))].map {
            target,
            columns in
            KeySQL(target: target, source: a, columns: columns).source
        }
        guard keys[0] == keys[1] else { return nil }
        return joined
    }

    private static func origin(_ column: MappedColumns.Column, of source: TableSchema) -> ColumnRecord.Origin {
        column.plain.map { .column(source.columns[$0].name) } ?? .expression(column.value)
    }

    /// Whether the rows of B and those of C are told apart by the same key, and come in the same order.
    private func hasSameKey(_ outer: MappedColumns) -> Bool {
        guard b.hasRowID == c.hasRowID else { return false }
        if b.hasRowID {
            guard let column = c.rowIDColumn else { return true }
            return outer[column].copied == b.rowIDName
        }
        return c.primaryKey.map { Self.term($0, $0.column.flatMap { outer[$0].plain }) }
            == b.primaryKey.map { Self.term($0, $0.column) }
    }

    private static func term(_ term: TableSchema.Index.Term, _ column: Int?) -> String {
        "\(column ?? -2) \(term.isDescending) " + SQLIdentifier.lowercased(term.collation)
    }

    /// Whether what is unique in C by that index is unique in B too, across the rows of both sources.
    private func isUniqueInB(_ index: TableSchema.Index, _ outer: MappedColumns) -> Bool {
        guard index.isPlain else { return false }
        if outer.areNull(in: index) { return true }
        func set(_ terms: [(Int?, String)]) -> Set<String> {
            Set(terms.map { "\($0 ?? -2) " + SQLIdentifier.lowercased($1) })
        }
        let wanted = set(index.terms.map { term in (term.column.flatMap { outer[$0].plain }, term.collation) })
        return b.indexes.contains { other in
            other.isUnique && other.isPlain && set(other.terms.map { ($0.column, $0.collation) }) == wanted
        }
    }
}
