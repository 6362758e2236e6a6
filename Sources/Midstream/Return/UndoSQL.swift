internal import SQLText
internal import SQLiteConnection

/// The SQL that brings a moving table's rows back to its source.
struct UndoSQL: Sendable {
    let sql: MoveSQL
    /// `main.midstream_returning_…`: the keys whose rows are being brought back.
    let returning: String
    private let inserted: String
    private let selected: String
    /// The target's column for the source's key, where it is not the target's own: the key of a row is its rowid there.
    private let separateKey: String?
    /// The target's column for the source's rowid, where that is no key: SQLite would choose one for NULL.
    private let rowIDColumn: String?

    /// - Throws: ``MigrationError`` when not all that a row of either side has can be told from one of the other.
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

    /// The target's column that each of the source's columns is copied into.
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
                // What there is of it in the target would be lost.
                throw cannot(record, "the source has no column for column \(column.name)")
            case .expression:
                throw cannot(record, "column \(column.name) is mapped by an expression, which cannot be turned round")
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
                        "column \(column.name) has another type than the source's column, so that values were converted"
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
                + ": \(why). Let it move to its end",
            table: record.target
        )
    }

    /// A column of the source that the target has nothing for.
    private static func missing(_ column: String, _ record: TableRecord) -> MigrationError {
        if !record.isReturning {
            return cannot(record, "the target does not take column \(column) of the source, whose values would be lost")
        }
        return MigrationError(
            .sourceChanged,
            "rows of table \(record.target) are on their way back to table \(record.source), which has a column \(column) by now "
                + "that the target has not: a program without Midstream has added it there, or dropped it here. Change it back: "
                + "nothing is lost, and the rows go on",
            table: record.target
        )
    }

    private var key: KeySQL { sql.key }

    private var keys: String { KeySQL.list(key.ledger) }

    var createTable: String { "CREATE TABLE \(returning)(\(key.ledgerColumns))\(key.ledgerOptions)" }

    // MARK: Ranges

    /// The parameter behind those of a range.
    var offsetParameter: Int { 2 * key.count + 1 }

    /// The place of a walk's keys.
    enum Walked {
        case target, ledger, returning
    }

    /// The key at which a batch ends: so many after the first of a range as the parameter behind the range says.
    ///
    /// - Parameter shared: How many of the first columns it is to have like the key that the range begins behind.
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

    /// The key above which so many rows of a side are in a range as the parameter behind it says.
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

    /// Notes that the ledger's rows of a range are to be brought back.
    func collect(_ range: KeyRange) -> String {
        "INSERT OR IGNORE INTO \(returning)(\(keys)) SELECT \(keys) FROM \(sql.ledger) "
            + "WHERE \(key.condition(key.ledger, range))"
    }

    // MARK: Bringing rows back

    private func keysOfRange(_ range: KeyRange) -> String {
        "SELECT \(keys) FROM \(returning) WHERE \(key.condition(key.ledger, range))"
    }

    /// Deletes what the source had of the rows of a range.
    func clear(_ range: KeyRange) -> String {
        "DELETE FROM \(sql.source) WHERE \(key.tupleOfSought(key.source)) IN (\(keysOfRange(range)))"
            + sql.condition
    }

    /// Of the target's rows, those that have the key of the source which they are known by.
    private var areKeyed: String {
        separateKey.map { " AND \(SQLIdentifier.quoted($0)) IS \(key.target[0])" }
            ?? rowIDColumn.map { " AND \(SQLIdentifier.quoted($0)) IS NOT NULL" } ?? ""
    }

    /// The keys of the target's rows of a range that would get another one in the source; `nil` where there can be none.
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

    /// Whether rows of the source may be none of this table's.
    ///
    /// - Parameter others: The conditions under which other tables take rows.
    func hasConditions(_ others: [String]) -> Bool { !sql.condition.isEmpty || !others.isEmpty }

    /// The keys of a range whose rows in the source are none of this table's: nobody would find them, or another table that
    /// takes rows from the source would.
    func strangers(_ range: KeyRange, _ others: [String]) -> String {
        strangers("\(key.tupleOfSought(key.source)) IN (\(keysOfRange(range)))", others)
    }

    /// The same of the row with the key ?1….
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

    /// The keys of the rows that are back, while one batch is settled.
    private var returned: String { "temp.midstream_names\(sql.id)" }

    var createReturned: String {
        "CREATE TABLE IF NOT EXISTS \(returned)(\(key.ledgerColumns))\(key.ledgerOptions)"
    }

    var clearReturned: String { "DELETE FROM \(returned) WHERE 1" }

    var dropReturned: String { "DROP TABLE IF EXISTS \(returned)" }

    /// Finds the rows of a range that the source has as the target has them, and the keys that neither has.
    func findReturned(_ range: KeyRange) -> String {
        let keysOfRange = keysOfRange(range)
        let comparison = VerificationSQL(sql)
        let rows = sql.renamedRows(
            sql.written,
            " WHERE \(key.tupleOfSought(key.source)) IN (\(keysOfRange))" + sql.condition
                // Where it merges such a query into the one around it, SQLite 3.15 takes the row value for one of its values.
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

    /// Has the target forget the rows that are back.
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
