internal import SQLText
internal import SQLiteConnection

/// A part that is being filled, and how far it is.
struct Filling {
    let building: Building
    let build: TableBuild
    let record: TableRecord
    var part: BuildStore.Part
    /// All parts: the rows say what the others are to have.
    var others: [BuildStore.Part]
    var cursor: [ExactValue]?
    var isOver = false

    private var statements: InternalStatements { building.statements }
    /// It moves rows into the build.
    private var mover: RowMover { RowMover(statements: statements, sql: build.built) }

    /// What it is when this is over.
    var next: BuildStore.Part.Stage {
        // Rows that are merged may bring NULLs where there were none.
        let isNullable = part.number > 0 && !build.parts[part.number - 1].nullable.isEmpty
        return isNullable && part.stage == .filling ? .fillingNulls : .filled
    }

    /// Fills it with so many rows of the source more, or entries.
    mutating func pass(_ rows: Int64) throws {
        guard part.number > 0 else { return try passRows(rows) }
        let index = build.parts[part.number - 1]
        if part.stage == .fillingNulls {
            try passNulls(index, rows)
        } else if let walk = index.walk {
            try passEntries(index, walk, rows)
        } else {
            try passEntriesOfRows(index, rows)
        }
    }

    private var key: RowKey? {
        cursor.map { values in
            if build.sql.key.isRowID, case .integer(let rowID)? = values.first { return .rowID(rowID) }
            return .columns(values)
        }
    }

    private mutating func passRows(_ rows: Int64) throws {
        let position = key.map(Position.after) ?? .start
        let upper = try mover.key(at: rows - 1, from: position, isPending: false)
        let range = build.built.key.range(after: position.key, through: upper)
        let text = build.built.copyRange(range, withLedger: false, undoing: .transaction)
        let copied = try mover.copy(text) { try mover.bindRange($0, position, upper) }
        // The checksum is the build's until it is adopted: the table may be drained before.
        let isSummedUp = record.verification == .complete
        var compared = record
        if isSummedUp { compared.verification = .batches }
        try mover.verify(compared, from: position, through: upper, hasLedger: false, copied: copied)
        part.count += copied
        let sum = try statements.statement(
            "SELECT \(KeySQL.list(build.sums + (isSummedUp ? [build.sumOfRows] : []))) FROM \(build.rows) WHERE "
                + build.sql.key.condition(build.sql.key.target, range)
        )
        defer { sum.reset() }
        try mover.bindRange(sum, position, upper)
        if try sum.step() {
            for place in build.parts.indices {
                others[place + 1].expected += sum.int64(at: 3 * place)
                others[place + 1].nulls += sum.int64(at: 3 * place + 1)
                others[place + 1].expectedHashes &+= sum.int64(at: 3 * place + 2)
            }
        }
        if isSummedUp { part.hashes &+= sum.int64(at: 3 * build.parts.count) }
        for index in build.parts where !index.nullable.isEmpty {
            let range = (range, position, upper)
            _ = try insert(index, into: index.waiting, nulls: true, range)
        }
        (cursor, isOver) = (upper?.values ?? cursor, upper == nil)
    }

    /// Entries of the source's index, in its order.
    private mutating func passEntries(
        _ index: TableBuild.Part,
        _ walk: IndexWalk,
        _ rows: Int64
    ) throws {
        let limit = walk.terms.count + 1
        let before = cursor
        func bind(_ statement: Statement) throws {
            try statement.bind(.columns(before ?? walk.terms.map { _ in .null }), at: 1)
            try statement.bind(rows, at: limit)
        }
        var inserted: Int64 = 0
        var last: [ExactValue]?
        let filter = index.nullable.isEmpty ? "" : " WHERE " + index.hasNoNullByName
        for piece in walk.following(before) {
            inserted += try statements.run(
                "INSERT INTO \(index.relation) SELECT * FROM (\(walk.entries(piece)))\(filter)",
                by: { try $0.stepOfCopy() },
                bind
            )
            let end = try statements.statement(walk.last(piece))
            defer { end.reset() }
            try bind(end)
            guard try end.step() else { continue }
            last = (0..<walk.terms.count).map { RowReader(end).exactValue(at: $0) }
            break
        }
        part.count += inserted
        if record.verification != .count {
            // What was written is read.
            var read: Int64 = 0
            let shell = IndexWalk(relation: index.relation, terms: index.terms)
            for piece in shell.following(before) {
                let sum = try statements.statement(shell.sum(piece))
                defer { sum.reset() }
                try bind(sum)
                guard try sum.step() else { continue }
                read += sum.int64(at: 0)
                part.hashes &+= sum.int64(at: 1)
            }
            guard read == inserted else { throw Building.GivenUp() }
        }
        (cursor, isOver) = (last ?? before, last == nil)
    }

    /// Entries of rows that are built, in the rows' order.
    private mutating func passEntriesOfRows(
        _ index: TableBuild.Part,
        _ rows: Int64
    ) throws {
        let key = build.sql.key
        let position = self.key.map(Position.after) ?? .start
        let upper: RowKey? = try key.nearest(position.key) { shared in
            let terms = key.terms(key.target, KeyRange(first: position.key == nil ? nil : .after, shared: shared))
            let statement = try statements.statement(
                "SELECT \(KeySQL.list(key.target)) FROM \(build.rows)\(build.sql.whereClause(terms, "")) "
                    + "ORDER BY \(key.order(key.target)) LIMIT 1 OFFSET ?\(2 * key.count + 1)"
            )
            defer { statement.reset() }
            try mover.bindRange(statement, position, nil)
            try statement.bind(rows - 1, at: 2 * key.count + 1)
            return try statement.step() ? key.read(statement) : nil
        }
        part.count += try insert(
            index,
            into: index.relation,
            nulls: false,
            (key.range(after: position.key, through: upper), position, upper)
        )
        (cursor, isOver) = (upper?.values ?? cursor, upper == nil)
    }

    /// Inserts the entries that rows of a range have in an index: those with NULLs, or those without.
    private func insert(
        _ index: TableBuild.Part,
        into relation: String,
        nulls: Bool,
        _ range: (range: KeyRange, position: Position, upper: RowKey?)
    ) throws -> Int64 {
        let (belongs, key) = (index.has(nulls: nulls), build.sql.key)
        return try statements.run(
            "INSERT INTO \(relation) SELECT \(KeySQL.list(index.values)) FROM \(build.rows) "
                + "WHERE \(key.condition(key.target, range.range))\(belongs.isEmpty ? "" : " AND " + belongs) "
                + "ORDER BY \(index.order(index.values))",
            by: { try $0.stepOfCopy() }
        ) { try mover.bindRange($0, range.position, range.upper) }
    }

    /// Entries with NULLs that have waited, so many of them.
    private mutating func passNulls(_ index: TableBuild.Part, _ rows: Int64) throws {
        let connection = building.connection
        guard try connection.fetchOne("SELECT 1 FROM \(index.waiting) LIMIT 1") != nil else { return isOver = true }
        let last: Int64? = try connection.fetchValue(
            "SELECT rowid FROM \(index.waiting) ORDER BY rowid LIMIT 1 OFFSET ?",
            [rows - 1]
        )
        try Imposter(connection: connection).describing(index.name, index.createImposter) {
            try connection.execute(
                "INSERT INTO main.\(SQLIdentifier.quoted(Imposter.name)) SELECT * FROM \(index.waiting) WHERE rowid <= ? "
                    + "ORDER BY \(index.order(index.terms.map(\.name)))",
                [last ?? .max]
            )
            try connection.execute("DELETE FROM \(index.waiting) WHERE rowid <= ?", [last ?? .max])
        }
        statements.removeAll()
        isOver = last == nil
    }
}
