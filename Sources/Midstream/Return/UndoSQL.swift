internal import SQLText
internal import SQLiteConnection

/// The SQL that brings a moving table's rows back to its source.
struct UndoSQL: Sendable {
    let sql: MoveSQL
    /// `main.midstream_returning_…`: the keys whose rows are being brought back.
    let returning: String
    private let inserted: String
    private let selected: String
    /// The target's column for the source's key, if that is not the target's own key: in the target, the key of a row
    /// is the rowid.
    private let separateKey: String?
    /// The target's column for the source's rowid, if that is not the key. For NULL, SQLite would choose a rowid.
    private let rowIDColumn: String?

    /// - Throws: ``MigrationError`` if not all that a row has on either side can be told from the row on the other
    ///   side.
    init(_ record: TableRecord, _ sql: MoveSQL, target: TableSchema, source: TableSchema) throws(MigrationError) {
        self.sql = sql
        returning = "main." + record.returningTable
        let origins = try Self.origins(record, target, source)
        let isByRowID = source.hasRowID && sql.key.isRowID && sql.key.source[0] == source.rowIDName
        let columns = source.columns.indices.filter { source.columns[$0].generation == nil }
        var names: [String] = []
        var values: [String] = []
        for index in columns {
            names.append(SQLIdentifier.quoted(source.columns[index].name))
            if let origin = origins[index] {
                values.append(SQLIdentifier.quoted(target.columns[origin].name))
            } else if index == source.rowIDColumn, isByRowID {
                values.append(sql.key.target[0])
            } else {
                throw Self.missing(source.columns[index].name, record)
            }
        }
        if source.rowIDColumn == nil, isByRowID {
            names.append(sql.key.source[0])
            values.append(sql.key.target[0])
        }
        let origin = source.rowIDColumn.flatMap { origins[$0] }
        separateKey = isByRowID ? origin.flatMap { $0 == target.rowIDColumn ? nil : target.columns[$0].name } : nil
        rowIDColumn = isByRowID ? nil : origin.map { target.columns[$0].name }
        inserted = KeySQL.list(names)
        selected = KeySQL.list(values)
    }

    /// For each of the source's columns, the target's column into which it is copied.
    private static func origins(
        _ record: TableRecord,
        _ target: TableSchema,
        _ source: TableSchema
    ) throws(MigrationError) -> [Int: Int] {
        let mapped = Dictionary(record.columns.map { (SQLIdentifier.lowercased($0.name), $0.origin) }) { first, _ in
            first
        }
        var origins: [Int: Int] = [:]
        for (index, column) in target.columns.enumerated() where column.generation == nil {
            let name: String
            switch mapped[SQLIdentifier.lowercased(column.name)] {
            case nil, .left: name = column.name
            case .column(let origin): name = origin
            case .expression(let text) where ExpressionShape.columnNames(in: text).isEmpty:
                // What the target has in this column would be lost.
                throw cannot(record, "the source has no column for column \(column.name)")
            case .expression:
                throw cannot(record, "column \(column.name) is mapped by an expression, which cannot be reversed")
            }
            if let origin = source.columnIndex(name) {
                guard source.columns[origin].generation == nil else {
                    throw cannot(record, "column \(name) of the source is generated, and column \(column.name) is not")
                }
                let affinities = [source.columns[origin].affinity, column.affinity]
                guard affinities[0] == affinities[1] || affinities.allSatisfy({ $0 == .integer || $0 == .numeric })
                else {
                    throw cannot(
                        record,
                        "column \(column.name) has another type than the source's column, so its values were converted"
                    )
                }
                if let other = origins.updateValue(index, forKey: origin) {
                    throw cannot(
                        record,
                        "columns \(target.columns[other].name) and \(column.name) both take column \(name) of the source, and may "
                            + "have different values"
                    )
                }
            } else if index != target.rowIDColumn || !MappedColumns.isRowIDName(name) {
                throw cannot(record, "the source has no column for column \(column.name)")
            }
        }
        return origins
    }

    static func cannot(_ record: TableRecord, _ why: String) -> MigrationError {
        MigrationError(
            .unsupported,
            "table \(record.target) cannot be moved back to "
                + (record.isRebuild ? "what it was before its upgrade" : "table \(record.source)")
                + ": \(why). Let it finish moving",
            table: record.target
        )
    }

    /// The error for a column of the source for which the target has nothing.
    private static func missing(_ column: String, _ record: TableRecord) -> MigrationError {
        if !record.isReturning {
            return cannot(record, "the target does not take column \(column) of the source, whose values would be lost")
        }
        return MigrationError(
            .sourceChanged,
            "rows of table \(record.target) are returning to table \(record.source), which now has a column \(column) "
                + "that the target does not have: a program without Midstream has added it there, or dropped it here. "
                + "Undo that change: nothing is lost, and the rows go on returning",
            table: record.target
        )
    }

    private var key: KeySQL { sql.key }

    private var keys: String { KeySQL.list(key.ledger) }

    var createTable: String { "CREATE TABLE \(returning)(\(key.ledgerColumns))\(key.ledgerOptions)" }

    // MARK: Ranges

    /// The number of the parameter after those of a range.
    var offsetParameter: Int { 2 * key.count + 1 }

    /// Where the keys of a walk are.
    enum Walked {
        case target, ledger, returning
    }

    /// The key at which a batch ends. The parameter after those of the range says how many keys after the range's first
    /// one that is.
    ///
    /// - Parameter shared: How many of the first columns of the keys are to be those of the key after which the range
    ///   begins.
    func upperKey(of walked: Walked, isBounded: Bool, sharing shared: Int) -> String {
        let (names, table) =
            switch walked {
            case .target: (key.target, sql.target)
            case .ledger: (key.ledger, sql.ledger)
            case .returning: (key.ledger, returning)
            }
        let range = KeyRange(first: isBounded ? .after : nil, shared: shared)
        return "SELECT \(KeySQL.list(names)) FROM \(table) WHERE \(key.condition(names, range)) "
            + "ORDER BY \(key.order(names)) LIMIT 1 OFFSET ?\(offsetParameter)"
    }

    // MARK: Collecting keys

    /// The key above which a range has as many rows of one side as the parameter after those of the range says.
    func lowerKey(ofTarget isTarget: Bool, _ range: KeyRange) -> String {
        let names = isTarget ? key.target : key.source
        let terms = [key.condition(names, range)] + (isTarget ? [] : key.belonging)
        return "SELECT \(KeySQL.list(names)) FROM \(isTarget ? sql.target : sql.source) "
            + "WHERE \(terms.joined(separator: " AND ")) "
            + "ORDER BY \(key.order(names, isReversed: true)) LIMIT 1 OFFSET ?\(offsetParameter)"
    }

    /// Puts the keys of a range into the ledger: those of the target's rows, or of the source's.
    func settle(ofTarget isTarget: Bool, _ range: KeyRange) -> String {
        let names = isTarget ? key.target : key.source
        return "INSERT OR IGNORE INTO \(sql.ledger)(\(keys)) SELECT \(KeySQL.list(names)) "
            + "FROM \(isTarget ? sql.target : sql.source) WHERE \(key.condition(names, range))"
            + (isTarget ? "" : sql.condition)
    }

    /// Notes that the rows with the ledger's keys of a range are to be brought back.
    func collect(_ range: KeyRange) -> String {
        "INSERT OR IGNORE INTO \(returning)(\(keys)) SELECT \(keys) FROM \(sql.ledger) "
            + "WHERE \(key.condition(key.ledger, range))"
    }

    // MARK: Bringing rows back

    private func keysOfRange(_ range: KeyRange) -> String {
        "SELECT \(keys) FROM \(returning) WHERE \(key.condition(key.ledger, range))"
    }

    /// Deletes what the source had of the rows with the returning keys of a range.
    func clear(_ range: KeyRange) -> String {
        "DELETE FROM \(sql.source) WHERE \(key.tupleOfSought(key.source)) IN (\(keysOfRange(range)))"
            + sql.condition
    }

    /// A condition: whether a row of the target would get, in the source, the key by which it is known.
    private var areKeyed: String {
        separateKey.map { " AND \(SQLIdentifier.quoted($0)) IS \(key.target[0])" }
            ?? rowIDColumn.map { " AND \(SQLIdentifier.quoted($0)) IS NOT NULL" } ?? ""
    }

    /// The keys of a range whose rows in the target would get another key in the source; `nil` if there can be none.
    func misplaced(_ range: KeyRange) -> String? {
        let isMisplaced =
            separateKey.map { "\(SQLIdentifier.quoted($0)) IS NOT \(key.target[0])" }
            ?? rowIDColumn.map { "\(SQLIdentifier.quoted($0)) IS NULL" }
        return isMisplaced.map { isMisplaced in
            "SELECT \(KeySQL.list(key.target)) FROM \(sql.target) "
                + "WHERE \(key.tupleOfSought(key.target)) IN (\(keysOfRange(range))) AND \(isMisplaced)"
        }
    }

    /// Copies the target's rows of a range into the source.
    func copy(_ range: KeyRange) -> String {
        "INSERT OR ABORT INTO \(sql.source)(\(inserted)) SELECT \(selected) FROM \(sql.target) "
            + "WHERE \(key.tupleOfSought(key.target)) IN (\(keysOfRange(range)))\(areKeyed) "
            + "ORDER BY \(key.order(key.target))"
    }

    /// Copies the row with the key ?1….
    var copyRow: String {
        "INSERT OR ABORT INTO \(sql.source)(\(inserted)) SELECT \(selected) FROM \(sql.target) "
            + "WHERE \(key.equals(key.target, key.parameters(from: 1)))\(areKeyed)"
    }

    /// The keys of a range whose rows are to be brought back.
    func returningKeys(_ range: KeyRange) -> String {
        keysOfRange(range) + " ORDER BY \(key.order(key.ledger))"
    }

    /// Whether some rows of the source may not be this table's.
    ///
    /// - Parameter others: The conditions under which other tables take rows.
    func hasConditions(_ others: [String]) -> Bool { !sql.condition.isEmpty || !others.isEmpty }

    /// The keys of a range whose rows in the source are not this table's: nobody would find such rows, or another table
    /// that takes rows from the source would.
    func strangers(_ range: KeyRange, _ others: [String]) -> String {
        strangers("\(key.tupleOfSought(key.source)) IN (\(keysOfRange(range)))", others)
    }

    /// The key ?1…, if the source's row with that key is not this table's.
    func strangerRow(_ others: [String]) -> String {
        strangers(key.equals(key.source, key.parameters(from: 1)), others)
    }

    private func strangers(_ rows: String, _ others: [String]) -> String {
        let isOthers = others.isEmpty ? "0" : others.map { "(\($0)\n)" }.joined(separator: " OR ")
        return "SELECT \(KeySQL.list(key.source)) FROM \(sql.source) WHERE \(rows) "
            + "AND CASE WHEN 1\(sql.condition) THEN CASE WHEN \(isOthers) THEN 1 ELSE 0 END ELSE 1 END"
    }

    /// Deletes the source's row with the key ?1….
    var deleteRow: String {
        "DELETE FROM \(sql.source) WHERE \(key.equals(key.source, key.parameters(from: 1)))"
    }

    // MARK: Settling what is back

    /// The table of the keys of rows that are back, while one batch is settled.
    private var returned: String { "temp.midstream_names\(sql.id)" }

    var createReturned: String {
        "CREATE TABLE IF NOT EXISTS \(returned)(\(key.ledgerColumns))\(key.ledgerOptions)"
    }

    var clearReturned: String { "DELETE FROM \(returned) WHERE 1" }

    var dropReturned: String { "DROP TABLE IF EXISTS \(returned)" }

    /// Finds the rows of a range that the source has just as the target has them, and the keys that neither side has.
    func findReturned(_ range: KeyRange) -> String {
        let keysOfRange = keysOfRange(range)
        let comparison = VerificationSQL(sql)
        let rows = sql.renamedRows(
            sql.written,
            " WHERE \(key.tupleOfSought(key.source)) IN (\(keysOfRange))" + sql.condition
                // LIMIT keeps SQLite 3.15 from merging this query into the one around it, where it would take the row
                // value for one of its values.
                + (key.count > 1 ? " LIMIT -1" : "")
        )
        let names = key.ledger.map { "midstream_returning.\($0)" }
        let inTarget = key.equals(key.target.map { "midstream_target.\($0)" }, names)
        let inSource = key.equals(key.source, names)
        return "INSERT OR IGNORE INTO \(returned)(\(keys)) SELECT \(KeySQL.list(sql.keyAliases)) FROM \(rows) "
            + "CROSS JOIN \(sql.target) AS midstream_target WHERE \(comparison.isIdenticalRow) "
            + "UNION ALL SELECT \(KeySQL.list(names)) FROM \(returning) AS midstream_returning "
            + "WHERE \(key.condition(names, range)) "
            + "AND NOT EXISTS (SELECT 1 FROM \(sql.target) AS midstream_target WHERE \(inTarget)) "
            + "AND NOT EXISTS (SELECT 1 FROM \(sql.source) WHERE \(inSource)\(sql.condition))"
    }

    /// Makes the target forget the rows that are back.
    var forgetReturned: [String] {
        [(sql.target, key.target), (sql.ledger, key.ledger), (returning, key.ledger)].map { table, names in
            "DELETE FROM \(table) WHERE \(key.tupleOfSought(names)) IN (SELECT \(keys) FROM \(returned))"
        }
    }

    /// Whether nothing is left in the target.
    var isEmpty: String {
        "SELECT NOT EXISTS (SELECT 1 FROM \(sql.target)) AND NOT EXISTS (SELECT 1 FROM \(sql.ledger))"
    }
}
