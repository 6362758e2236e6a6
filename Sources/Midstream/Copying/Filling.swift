internal import SQLText
internal import SQLiteConnection

/// A part of a build that is being filled, and how far it is.
struct Filling {
    let building: Building
    let build: TableBuild
    let record: TableRecord
    var part: BuildStore.Part
    /// All parts of the build. As the rows are filled in, they tell what entries the other parts are to have.
    var others: [BuildStore.Part]
    /// Whether the build gets the source's rows alone, even those that are superseded.
    let isOfSourceAlone: Bool
    /// Whether only a slice is undone if the target does not take a row of the slice. For that, SQLite keeps a journal
    /// of each statement.
    var isCareful = false
    var cursor: [ExactValue]?
    var isOver = false

    private var statements: InternalStatements { building.statements }
    /// Moves rows of the first source into the build.
    private var mover: RowMover { RowMover(statements: statements, sql: build.built[0]) }

    /// The stage of the part when the filling is over.
    var next: BuildStore.Part.Stage {
        // Rows that are merged may bring NULLs to an index that had none.
        let isNullable = part.number > 0 && !build.parts[part.number - 1].nullable.isEmpty
        return isNullable && part.stage == .filling ? .fillingNulls : .filled
    }

    /// Fills the part with up to `rows` more rows or entries.
    mutating func pass(_ rows: Int64) throws {
        guard part.number > 0 else { return try passRows(rows) }
        let index = build.parts[part.number - 1]
        if part.stage == .fillingNulls {
            try passNulls(index, rows)
        } else if let walk = try building.walk(index) {
            try passEntries(index, walk, rows)
        } else {
            try passEntriesOfRows(index, rows)
        }
    }

    /// The next slice of rows, with at most `rows` rows of each source: the position after which the slice begins, and
    /// its last key.
    func nextRows(_ rows: Int64) throws -> (position: Position, upper: RowKey?) {
        let position = key.map(Position.after) ?? .start
        let ends = try build.built.map { sql in
            try RowMover(statements: statements, sql: sql).key(at: rows - 1, from: position, isPending: false)
        }
        return (
            position,
            try ends.compactMap(\.self).reduce(nil) { first, end in
                try first.map { try isBefore($0, end) } == true ? first : end
            }
        )
    }

    private func isBefore(_ key: RowKey, _ other: RowKey) throws -> Bool {
        let sql = build.sql.key
        let statement = try statement("is before", KeyRange()) {
            "SELECT "
                + sql.compares(sql.collated(sql.parameters(from: 1)), .before, sql.parameters(from: 1 + sql.count))
        }
        defer { statement.reset() }
        try statement.bind(key, at: 1)
        try statement.bind(other, at: 1 + sql.count)
        return try statement.step() && statement.int64(at: 0) != 0
    }

    private var key: RowKey? { cursor.map(build.sql.key.key) }

    private mutating func passRows(_ rows: Int64) throws {
        let (position, last) = try nextRows(rows)
        var upper = last
        let written = try keysOfWritten(position, &upper, atMost: rows)
        let range = build.range(after: position.key, through: upper)
        // Until the live table adopts the build, the checksum is kept with the build, since the table may be drained
        // before.
        let isSummedUp = record.verification == .complete
        // The build's b-tree is dense if rows are copied in the order of their keys.
        let isTogether = build.feeds.count > 1 || !written.isEmpty && !build.sql.key.isRowID
        part.count += try isTogether ? copyTogether(range, position, upper) : copyAround(written, position, upper)
        if !written.isEmpty { try note(index: range, position, upper) }
        let sum = try statement(isSummedUp ? "sums of all" : "sums", range) {
            "SELECT \(KeySQL.list(build.sums + (isSummedUp ? [build.sumOfRows] : []))) FROM \(build.rows) WHERE "
                + build.sql.key.condition(build.sql.key.target, range)
        }
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

    /// Copies the rows of a range: rows with the keys `written` from the live table, and the others from the source,
    /// even if they are superseded.
    ///
    /// - Returns: How many of the rows are the source's.
    private func copyAround(_ written: [RowKey], _ position: Position, _ upper: RowKey?) throws -> Int64 {
        var from = position
        var copied: Int64 = 0
        if !written.isEmpty {
            let live = try statements.statement(build.copyLive)
            let between = try Comparison(self, .after(.rowID(0)), .rowID(0))
            let first = try position == .start ? Comparison(self, position, .rowID(0)) : between
            for key in written.compactMap(\.rowID) {
                if key > .min, from.key != .rowID(key - 1) {
                    copied += try (from == position ? first : between).copy(from, .rowID(key - 1))
                }
                _ = try statements.run(live, by: { try $0.stepOfCopy() }) { try $0.bind(key, at: 1) }
                from = .after(.rowID(key))
            }
        }
        if upper == nil || from.key != upper { copied += try Comparison(self, from, upper).copy(from, upper) }
        return copied
    }

    /// Copies the source's rows of a range, even superseded ones, and compares the copies with the source.
    private struct Comparison {
        private let filling: Filling
        private let copy: Statement
        private let check: Statement?

        /// Makes the statements for ranges with such ends, whatever the ends' keys are.
        init(_ filling: Filling, _ position: Position, _ upper: RowKey?) throws {
            self.filling = filling
            let sql = filling.build.built[0]
            let range = sql.key.range(after: position.key, through: upper)
            let isCareful = filling.isCareful
            copy = try filling.statement(isCareful ? "copy carefully" : "copy", range) {
                sql.copyRange(range, withLedger: false, undoing: isCareful ? .statement : .transaction)
            }
            let isCompared = filling.record.verification != .count
            check =
                try isCompared
                ? filling.statement("check", range) {
                    VerificationSQL(sql).equalRows(range, withLedger: false, hashes: false)
                } : nil
        }

        func copy(_ position: Position, _ upper: RowKey?) throws -> Int64 {
            let mover = filling.mover
            let copied = try filling.statements.run(copy, by: { try $0.stepOfCopy() }) {
                try mover.bindRange($0, position, upper)
            }
            guard let check else { return copied }
            defer { check.reset() }
            try mover.bindRange(check, position, upper)
            if try !check.step() || check.int64(at: 0) != copied {
                var record = filling.record
                record.verification = .batches
                try mover.verify(record, from: position, through: upper, hasLedger: false, copied: copied)
            }
            return copied
        }
    }

    /// Copies the rows of a range if there are several sources, or no rowids. A key that is superseded in one source
    /// may be that of another source's row by now, as with a table in the middle of a chain.
    ///
    /// - Returns: How many of the rows are the sources'.
    private func copyTogether(_ range: KeyRange, _ position: Position, _ upper: RowKey?) throws -> Int64 {
        func number(_ name: String, _ text: () -> String) throws -> Int64 {
            let statement = try statement(name, range, text)
            defer { statement.reset() }
            try mover.bindRange(statement, position, upper)
            return try statement.step() ? statement.int64(at: 0) : 0
        }
        let copy = try statement(isCareful ? "copy together, carefully" : "copy together", range) {
            build.copyTogether(range, undoing: isCareful ? .statement : .transaction)
        }
        let all = try statements.run(copy, by: { try $0.stepOfCopy() }) { try mover.bindRange($0, position, upper) }
        let key = build.sql.key
        let copied =
            try all
            - number("live") { "SELECT count(*) FROM \(build.sql.target) WHERE \(key.condition(key.target, range))" }
        // If there are several sources, the move from another one may ask for the comparison.
        if build.feeds.count == 1, record.verification == .count { return copied }
        let equal = try build.built.reduce(Int64(0)) { sum, feed in
            try sum
                + number("check \(feed.id)") {
                    VerificationSQL(feed).equalRows(range, withLedger: true, hashes: false)
                }
        }
        // When rows move in batches, the error says which row of which source differs.
        guard equal == copied else { throw Building.GivenUp() }
        return copied
    }

    // MARK: What has been written

    /// The keys of a range that the live table has, or that are superseded. There are none if the build gets the
    /// source's rows alone.
    ///
    /// - Parameter upper: The end of the range. If there are as many keys as are asked for, the end becomes the last of
    ///   these keys.
    private func keysOfWritten(_ position: Position, _ upper: inout RowKey?, atMost rows: Int64) throws -> [RowKey] {
        if isOfSourceAlone { return [] }
        let key = build.sql.key
        let range = key.range(after: position.key, through: upper)
        let statement = try statement("written", range) {
            "\(selectWritten(range)) ORDER BY \(key.orderOfColumns) LIMIT ?\(2 * key.count + 1)"
        }
        defer { statement.reset() }
        try mover.bindRange(statement, position, upper)
        try statement.bind(rows, at: 2 * key.count + 1)
        var keys: [RowKey] = []
        while try statement.step() { keys.append(key.read(RowReader(statement))) }
        if keys.count == rows, let last = keys.last { upper = last }
        return keys
    }

    private func selectWritten(_ range: KeyRange) -> String {
        let key = build.sql.key
        return (build.ledgers.map { (key.ledger, $0) } + [(key.target, build.sql.target)]).map { names, table in
            "SELECT \(KeySQL.list(names)) FROM \(table) WHERE \(key.condition(names, range))"
        }.joined(separator: " UNION ")
    }

    /// Notes which rows of a range are not the source's, and by which entries the build's indexes therefore differ from
    /// the source's.
    private mutating func note(index range: KeyRange, _ position: Position, _ upper: RowKey?) throws {
        let key = build.sql.key
        func run(_ name: String, _ text: () -> String) throws {
            _ = try statements.run(statement(name, range, text)) { try mover.bindRange($0, position, upper) }
        }
        let superseded = try statement("superseded", range) {
            let counts = build.ledgers.map { "(SELECT count(*) FROM \($0) WHERE \(key.condition(key.ledger, range)))" }
            return "SELECT \(counts.joined(separator: " + "))"
        }
        defer { superseded.reset() }
        try mover.bindRange(superseded, position, upper)
        if try superseded.step() { part.count += superseded.int64(at: 0) }
        if record.verification == .complete {
            let text = VerificationSQL(build.built[0]).settledHashes(range)
            guard let sum = try mover.sumOfHashes(text, position, upper) else { throw Building.GivenUp() }
            part.hashes &+= sum
        }
        try run("note") { "INSERT OR IGNORE INTO \(build.merged) \(selectWritten(range))" }
        for index in build.parts {
            guard let walk = index.walk else { continue }
            let isWritten = "IN (SELECT key FROM \(build.merged) WHERE \(key.condition(key.ledger, range)))"
            try run("leaving \(index.number)") { index.leaving(build, walk, "\(key.source[0]) \(isWritten)") }
            try run("coming \(index.number)") { index.coming(build, walk, "\(key.target[0]) \(isWritten)") }
        }
    }

    private func statement(_ name: String, _ range: KeyRange, _ text: () throws -> String) throws -> Statement {
        try build.texts.statement(name, range, statements, text)
    }

    // MARK: Entries

    /// Copies entries of the source's index, in the index's order.
    private mutating func passEntries(
        _ index: TableBuild.Part,
        _ walk: IndexWalk,
        _ rows: Int64
    ) throws {
        let before = cursor
        let (inserted, last) =
            try building.hasEdits(index) ? copyAroundEdits(index, walk, rows) : copyEntries(index, walk, rows)
        let limit = walk.terms.count + 1
        func bind(_ statement: Statement) throws {
            try statement.bind(.columns(before ?? walk.terms.map { _ in .null }), at: 1)
            try statement.bind(rows, at: limit)
        }
        part.count += inserted
        if record.verification != .count {
            // The check reads the entries that were written.
            var read: Int64 = 0
            let shell = IndexWalk(table: index.relation, terms: index.terms)
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

    /// Copies about `rows` entries of the source's index.
    ///
    /// - Returns: How many entries were copied, and the last one; `nil` for the last one if the index has no more
    ///   entries.
    private func copyEntries(
        _ index: TableBuild.Part,
        _ walk: IndexWalk,
        _ rows: Int64
    ) throws -> (inserted: Int64, last: [ExactValue]?) {
        let (before, count) = (cursor, walk.terms.count)
        func bind(_ statement: Statement) throws {
            try statement.bind(.columns(before ?? walk.terms.map { _ in .null }), at: 1)
            try statement.bind(rows, at: count + 1)
        }
        let filter = index.nullablePlaces.isEmpty ? "" : " WHERE " + index.hasNoNullByName
        var inserted: Int64 = 0
        for piece in walk.following(before) {
            inserted += try statements.run(
                "INSERT INTO \(index.relation) SELECT * FROM (\(walk.entries(piece)))\(filter)",
                by: { try $0.stepOfCopy() },
                bind
            )
            let end = try statements.statement(walk.last(piece))
            defer { end.reset() }
            try bind(end)
            if try end.step() { return (inserted, (0..<count).map { RowReader(end).exactValue(at: $0) }) }
        }
        return (inserted, nil)
    }

    /// Copies up to `rows` entries of the source's index, except those that the rows of the build do not have. Inserts
    /// the entries that these rows have instead, each in its place.
    private func copyAroundEdits(
        _ index: TableBuild.Part,
        _ walk: IndexWalk,
        _ rows: Int64
    ) throws -> (inserted: Int64, last: [ExactValue]?) {
        var (place, left, inserted) = (cursor, rows, Int64(0))
        let (edits, count) = (IndexWalk(table: index.edits, terms: index.terms), walk.terms.count)
        let insert = try statement("edit \(index.number)", KeyRange()) {
            "INSERT INTO \(index.relation) VALUES (\(KeySQL.list((1...count).map { "?\($0)" })))"
        }
        var between = Between(statements: statements, index: index, walk: walk)
        for edited in edits.following(place) + [nil] {
            let reading = try edited.map { try statements.statement(edits.entries($0, with: "is_built")) }
            defer { reading?.reset() }
            if let place { try reading?.bind(.columns(place), at: 1) }
            try reading?.bind(rows, at: count + 1)
            while true {
                var edit: (entry: [ExactValue], isBuilt: Bool)?
                if let reading {
                    guard try reading.step() else { break }
                    let row = RowReader(reading)
                    edit = ((0..<count).map { row.exactValue(at: $0) }, row.int64(at: count) != 0)
                }
                let last = try between.copy(after: place, before: edit?.entry, &left, &inserted)
                if let last { return (inserted, last) }
                guard let edit else { return (inserted, nil) }
                place = edit.entry
                left -= 1
                if edit.isBuilt {
                    inserted += try statements.run(insert, by: { try $0.stepOfCopy() }) {
                        try $0.bind(.columns(edit.entry), at: 1)
                    }
                }
                if left <= 0 { return (inserted, place) }
            }
        }
        return (inserted, nil)
    }

    /// Inserts the entries of the build's rows, in the order of the rows.
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

    /// Inserts the entries that the rows of a range have in an index: either those with NULLs, or those without.
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

    /// Writes up to `rows` of the entries with NULLs that have waited.
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
