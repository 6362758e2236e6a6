internal import SQLText

/// The SQL that Midstream runs on the two sides of a moving table. All of it works with SQLite 3.15.
///
/// It has more than 15 stored properties: texts of SQL, which are made once for a move. It is a class since it is asked for each row,
/// and copies of so many texts would cost more than the row.
final class MoveSQL: Sendable {
    let id: Int64
    /// `main."T"`
    let target: String
    let targetName: String
    /// `"schema"."S"`
    let source: String
    let sourceName: String
    /// The schema under which the source is attached.
    let sourceSchema: String
    /// The source table's name, if it is in the target's file.
    let sourceInTarget: String?
    /// The key that identifies rows.
    let key: KeySQL
    /// Whether the rowids of either side have no column, so that VACUUM may change them.
    let hasImplicitKey: Bool
    /// Whether a VACUUM of the target's file may change rowids that identify rows.
    let keepsRowIDs: Bool
    /// `main.midstream_ledger_…`
    let ledger: String
    /// `main.midstream_watermark_…`; used only if the key is not the rowid.
    let watermark: String
    /// Whether the target is AUTOINCREMENT.
    let hasSequence: Bool
    /// `AND (…)`, or nothing.
    let condition: String
    /// The target's columns as SQL on a row of the source.
    let columns: MappedColumns
    /// The names of the target's columns that are written, and the source's expressions that are written into them.
    let insertedColumns: String
    private let selected: [String]
    /// Whether a seek in the source compares only rowids, and reads nothing else of the rows that it passes.
    let seeksRowIDs: Bool
    /// Clauses that make a query read an index with all of the source's rows, or the table in its own order.
    let listings: [String]
    /// The written columns, by index and by name, without a rowid that has no column.
    let written: [Int]
    let writtenColumns: [String]
    /// Whether the target's rowid has no column, and is written in addition to the columns.
    let hasUnnamedKey: Bool
    /// The target's column that is the rowid.
    let rowIDColumn: Int?
    /// The names of the source's columns.
    let namesOfSource: [String]
    private let keyColumns: Set<String>
    /// Whether rows that come into the target fire its triggers for INSERT.
    let firesTriggers: Bool
    /// What the SQL was made for.
    private let made: (record: TableRecord, migration: MigrationRecord, target: TableSchema, source: TableSchema)

    /// - Parameter table: Another table of the target's file, with the target's columns, that the rows come into.
    init(
        record: TableRecord,
        migration: MigrationRecord,
        target: TableSchema,
        source: TableSchema,
        into table: String? = nil
    ) {
        made = (record, migration, target, source)
        id = record.id
        firesTriggers = record.firesTriggers
        targetName = target.name
        self.target = "main." + SQLIdentifier.quoted(table ?? target.name)
        sourceName = source.name
        sourceSchema = migration.schema
        sourceInTarget = migration.sourcePath == nil ? source.name : nil
        self.source = migration.name(of: source.name)
        columns = MappedColumns(target: target, source: source, records: record.columns)
        key = KeySQL(target: target, source: source, columns: columns)
        ledger = "main." + record.ledger
        watermark = "main." + record.watermarkTable
        hasSequence = target.isAutoIncrement
        condition = record.condition.map { " AND (\($0)\n)" } ?? ""
        hasImplicitKey = target.hasRowID && source.hasRowID && (target.rowIDColumn == nil || source.rowIDColumn == nil)
        keepsRowIDs = Self.keepsRowIDs(target: target, source: source, migration)
        seeksRowIDs = source.hasRowID && key.isRowID && key.source[0] == source.rowIDName
        listings =
            source.indexes.filter { !$0.isPartial && (source.hasRowID || !$0.isPrimaryKey) }
            .map { "INDEXED BY \(SQLIdentifier.quoted($0.name))" } + (source.hasRowID ? ["NOT INDEXED"] : [])
        hasUnnamedKey = target.hasRowID && target.rowIDColumn == nil
        rowIDColumn = target.hasRowID ? target.rowIDColumn : nil
        namesOfSource = source.columns.map(\.name)
        keyColumns = Set((target.rowIDColumn.map { [$0] } ?? key.columns).map { target.columns[$0].name })
        written = target.columns.indices.filter { target.columns[$0].generation == nil }
        writtenColumns = written.map { target.columns[$0].name }
        insertedColumns = KeySQL.list(writtenColumns.map(SQLIdentifier.quoted) + (hasUnnamedKey ? key.target : []))
        selected = written.map { [columns] in columns[$0].copied } + (hasUnnamedKey ? key.source : [])
        state = Self.state(record.id, ledger, watermark, key)
    }

    /// The SQL of this move with another table of the target's file as target. That table has the target's columns.
    func into(_ table: String) -> MoveSQL {
        MoveSQL(record: made.record, migration: made.migration, target: made.target, source: made.source, into: table)
    }

    /// Whether ``keepsRowIDs`` holds for these tables.
    static func keepsRowIDs(target: TableSchema, source: TableSchema?, _ migration: MigrationRecord) -> Bool {
        guard target.hasRowID else { return false }
        // If both tables are in one file, a VACUUM of that file is one of the source too.
        let isImplicitInSource = source.map { $0.hasRowID && $0.rowIDColumn == nil } ?? false
        return target.rowIDColumn == nil || migration.sourcePath == nil && isImplicitInSource
    }

    // MARK: State

    /// Phase, watermark, ceiling, and whether the ledger has entries. If the key is not the rowid, also the key that the watermark
    /// stands for.
    let state: String

    private static func state(_ id: Int64, _ ledger: String, _ watermark: String, _ key: KeySQL) -> String {
        "SELECT phase, watermark, ceiling, EXISTS (SELECT 1 FROM \(ledger))"
            + (key.isRowID ? "" : ", \(KeySQL.list(key.ledger))") + " FROM main.midstream_tables"
            + (key.isRowID ? "" : " LEFT JOIN \(watermark)") + " WHERE id = \(id)"
    }

    /// The stage of `Undo`, while the last rows are being brought back to the source.
    var stageOfLastRows: String {
        "SELECT undo_stage FROM main.midstream_tables WHERE id = \(id) AND watermark IS NULL AND undo_stage % 2 = 1"
    }

    /// Creates the ledger, and the watermark's table if the key is not the rowid.
    var createTables: [String] {
        let ledger = "CREATE TABLE \(ledger)(\(key.ledgerColumns))\(key.ledgerOptions)"
        if key.isRowID { return [ledger] }
        let columns = key.ledger.map { "\($0) NOT NULL" }
        return [ledger, "CREATE TABLE \(watermark)(only INTEGER PRIMARY KEY, \(KeySQL.list(columns)))"]
    }

    /// The key that the watermark stands for.
    var watermarkKey: String { "SELECT \(KeySQL.list(key.ledger)) FROM \(watermark)" }

    /// Source rows that no statement has settled yet. Together with a lower bound, these are the pending rows.
    var isUnsettled: String { "NOT \(isSettled)\(condition)" }

    /// Whether the ledger has the source row's key. The source's names must stand where they cannot mean the ledger's columns or
    /// its rowid.
    var isSettled: String {
        let isFound = "\(KeySQL.tuple(key.source)) IN (SELECT \(KeySQL.list(key.ledger)) FROM \(ledger))"
        // CASE asks only for the truth of the term. For its value, SQLite would go through the whole ledger to see that it has no
        // NULL.
        return key.count == 1 ? isFound : "CASE WHEN \(isFound) THEN 1 ELSE 0 END"
    }

    /// Whether the source's row is beyond the stepper's watermark.
    ///
    /// - Parameters:
    ///   - first: The number of the first of the parameters to which `LiveState.bindBound` binds the bound.
    ///   - isIndexed: Whether SQLite may use an index to find the rows.
    func isBeyond(_ first: Int, isIndexed: Bool = true) -> String {
        // A rowid is compared with the smallest rowid that may be pending.
        key.compares(
            isIndexed ? key.source : key.source.map { "+" + $0 },
            key.isRowID ? .from : .after,
            key.parameters(from: first)
        )
    }

    /// Whether the source's row is beyond the stored watermark: `number`, or if the key is not the rowid, the key in `watermark`.
    private func isBeyondStored(_ number: String) -> String {
        // The source's names must stand where they cannot mean the columns of the watermark's table.
        let stored = key.isRowID ? [number] : key.ledger.map { "(SELECT \($0) FROM \(watermark))" }
        return key.compares(key.source, .after, stored)
    }

    /// A continuation of a WHERE clause that chooses the source's pending rows, given the stored watermark.
    func isPending(after watermark: Int64?) -> String {
        switch watermark {
        case nil: " AND \(isUnsettled)"
        case .max: " AND 0"
        case let number?: " AND \(isBeyondStored("\(number)")) AND \(isUnsettled)"
        }
    }

    /// The number of rows on both sides together, in one statement and so in one snapshot.
    func wholeCount(named name: String) -> String {
        // The qualified name: a column of the application's in the source may be called `watermark`.
        let stored = "midstream_tables.watermark"
        return
            "SELECT (SELECT count(*) FROM \(target)) + ifnull((SELECT CASE WHEN phase <> \(MigrationPhase.copying.rawValue) "
            + "THEN 0 WHEN undo_stage IS NULL AND total IS NOT NULL "
            + "THEN total - copied - settled - (SELECT count(*) FROM \(ledger)) "
            + "WHEN undo_stage IS NULL AND watermark IS NULL THEN (SELECT count(*) FROM \(source)\(condition.isEmpty ? "" : " WHERE 1" + condition)) "
            + "- (SELECT count(*) FROM \(ledger)) WHEN watermark = \(Int64.max) THEN 0 "
            + "ELSE (SELECT count(*) FROM \(source) WHERE (\(stored) IS NULL OR \(isBeyondStored(stored))) AND \(isUnsettled)) "
            + "END FROM main.midstream_tables WHERE id = \(id)), 0) AS \(SQLIdentifier.quoted(name))"
    }

    /// The number of pending rows.
    ///
    /// - Parameter isBounded: Whether the parameters are the lower bound.
    func countPending(isBounded: Bool, hasLedger: Bool) -> String {
        "SELECT count(*) FROM \(source) WHERE \(isBounded ? isBeyond(1) : "1")"
            + (hasLedger ? " AND \(isUnsettled)" : condition)
    }

    // MARK: One row

    /// Whether the row with the key ?1… is pending. If the key is the rowid, the caller has checked that it is not below the lower
    /// bound.
    func isPending(isBounded: Bool) -> String {
        let bound = isBounded && !key.isRowID ? " AND \(isBeyond(1 + key.count))" : ""
        return
            "SELECT 1 FROM \(source) WHERE \(key.equals(key.source, key.parameters(from: 1)))\(bound) AND \(isUnsettled)"
    }

    /// Whether the target has the row with the key ?1….
    var isInTarget: String { "SELECT 1 FROM \(target) WHERE \(key.equals(key.target, key.parameters(from: 1)))" }

    /// Copies the row with the key ?1….
    var copyRow: String { copyRow(.key) }

    func copyRow(_ way: Way) -> String { "\(insert(undoing: .statement)) \(selectRow(way))" }

    /// An `OR` clause overrides what the target's constraints say about conflicts. It would also override what the programs of
    /// triggers say about theirs. So there is none if triggers are to fire; `FiredTriggers` then makes sure that the constraints
    /// say nothing.
    ///
    /// Source: <https://www.sqlite.org/lang_createtrigger.html>.
    func insert(undoing refusal: Refusal) -> String {
        "INSERT \(firesTriggers ? "" : "OR \(refusal.rawValue) ")INTO \(target)(\(insertedColumns))"
    }

    /// Selects what is copied of the row with the key ?1….
    func selectRow(_ way: Way) -> String { select(selected, way) }

    private func select(_ values: [String], _ way: Way) -> String { "SELECT \(KeySQL.list(values))\(row(way))" }

    /// Copies the row with the key ?1…. Some of its columns get the values of the parameters from `firstReplacement` on instead.
    ///
    /// - Parameter replaced: The places of these columns in `writtenColumns`.
    func copyRow(_ way: Way, replacing replaced: [Int]) -> String {
        var values = selected
        for (offset, column) in replaced.enumerated() { values[column] = "?\(firstReplacement + offset)" }
        return "\(insert(undoing: .statement)) \(select(values, way))"
    }

    /// The number of the first parameter after the row's key and the way's key.
    var firstReplacement: Int { 1 + 2 * key.count }

    func isKeyColumn(_ name: String) -> Bool { keyColumns.contains(name) }

    /// Notes that the row with the key ?1… is no longer pending.
    var settle: String {
        "INSERT INTO \(ledger)(\(KeySQL.list(key.ledger))) VALUES (\(KeySQL.list(key.parameters(from: 1))))"
    }

    /// Whether the ledger has the key ?1….
    var isInLedger: String { "SELECT 1 FROM \(ledger) WHERE \(key.equals(key.ledger, key.parameters(from: 1)))" }

    /// For each comparable key of the target: finds the first pending row that has the values ?1, ?2, ….
    ///
    /// The comparison is the target's: its explicit collation takes precedence over the source column's own.
    ///
    /// - Parameter isBounded: Whether the parameters after the values are the lower bound.
    func keyLookups(of target: TableSchema, isBounded: Bool) -> [String] {
        target.comparableKeys.map { index in
            lookup(by: index) + " " + (isBounded ? "AND \(isBeyond(index.terms.count + 1)) " : "")
                + "AND \(isUnsettled) LIMIT 1"
        }
    }

    /// Whether a source row has the same values in a key of the target as the row that is called `midstream_target`.
    func hasKey(_ index: TableSchema.Index, of target: TableSchema) -> String {
        if columns.areNull(in: index) { return "0" }
        let terms = index.terms.compactMap { term -> String? in
            guard let column = term.column, column >= 0 else { return nil }
            let name = "midstream_target." + SQLIdentifier.quoted(target.columns[column].name)
            let mapped = columns[column]
            return "\(mapped.value) = \(mapped.converted(name)) COLLATE \(SQLIdentifier.quoted(term.collation))"
        }
        return terms.joined(separator: " AND ")
    }

    /// Whether a row of the source has the same values in a key of the target as the target's row with the key ?1….
    ///
    /// - Parameter rows: Chooses the rows of the source, as a continuation of a WHERE clause.
    func collides(by index: TableSchema.Index, of target: TableSchema, with rows: String) -> String {
        "SELECT 1 FROM \(self.target) AS midstream_target WHERE "
            + key.equals(key.target.map { "midstream_target." + $0 }, key.parameters(from: 1))
            + " AND EXISTS (SELECT 1 FROM \(source) WHERE \(hasKey(index, of: target))\(rows))"
    }

    /// Finds the source's rows that have the values ?1, ?2, … in a key of the target.
    func lookup(by index: TableSchema.Index) -> String {
        let terms = index.terms.enumerated().map { offset, term in
            let column = term.column.flatMap { $0 >= 0 ? columns[$0] : nil }
            let value = column?.converted("?\(offset + 1)") ?? "?\(offset + 1)"
            return "\(column?.value ?? key.source[0]) = \(value) COLLATE \(SQLIdentifier.quoted(term.collation))"
        }
        return "SELECT \(KeySQL.list(key.source)) FROM \(source) WHERE \(terms.joined(separator: " AND "))"
    }

    // MARK: The largest rowid

    var largestTargetKey: String { "SELECT max(\(key.target[0])) FROM \(target)" }
    var anyInTarget: String { "SELECT 1 FROM \(target) LIMIT 1" }
    var anyInSource: String { "SELECT 1 FROM \(source)" + whereClause(key.belonging, "") + " LIMIT 1" }
    var largestSourceKey: String { "SELECT max(\(key.source[0])) FROM \(source)" + whereClause(key.belonging, "") }

    /// The largest rowid among the rows that belong to the migration.
    var largestBelongingKey: String {
        let name = key.source[0]
        return "SELECT \(name) FROM \(source)" + whereClause(key.belonging, condition)
            + " ORDER BY \(name) DESC LIMIT 1"
    }

    /// The largest pending rowid from ?1 to ?2.
    var largestPendingKey: String {
        let name = key.source[0]
        return
            "SELECT \(name) FROM \(source) WHERE \(name) BETWEEN ?1 AND ?2 AND \(isUnsettled) ORDER BY \(name) DESC LIMIT 1"
    }

    // MARK: Many rows

    func whereClause(_ terms: [String], _ rest: String) -> String {
        terms.isEmpty && rest.isEmpty
            ? "" : " WHERE \((terms.isEmpty ? ["1"] : terms).joined(separator: " AND "))\(rest)"
    }

    /// The key of the row that follows the first row of a range at a distance. The parameter after those of the range says how many
    /// rows further it is.
    ///
    /// - Parameters:
    ///   - shared: How many of the first columns must be equal to those of the key after which the range begins.
    ///   - isPending: Whether only pending rows are counted.
    func upperKey(isBounded: Bool, sharing shared: Int, isPending: Bool) -> String {
        "SELECT \(KeySQL.list(key.source)) FROM \(source)"
            + whereClause(
                key.terms(key.source, KeyRange(first: isBounded ? .after : nil, shared: shared)) + key.belonging,
                isPending ? " AND \(isUnsettled)" : ""
            )
            + " ORDER BY \(key.order(key.source)) LIMIT 1 OFFSET ?\(2 * key.count + 1)"
    }

    /// What SQLite undoes if the target refuses one of many copied rows.
    enum Refusal: String {
        case statement = "ABORT"
        /// The whole transaction. For this, SQLite keeps no statement journal, which has a copy of each page that the statement
        /// changes.
        ///
        /// Source: <https://www.sqlite.org/tempfiles.html>, section 2.5.
        case transaction = "ROLLBACK"
    }

    /// Copies the pending rows of a range.
    func copyRange(_ range: KeyRange, withLedger: Bool, undoing refusal: Refusal) -> String {
        "\(insert(undoing: refusal)) \(selectRange(range, withLedger: withLedger))"
            // Copying in the order of the keys makes the target dense.
            + (key.isRowID ? "" : " ORDER BY \(key.order(key.source))")
    }

    /// Selects what is copied of the rows of a range.
    func selectRange(_ range: KeyRange, withLedger: Bool) -> String {
        "SELECT \(KeySQL.list(selected)) FROM \(source)\(rangeClause(range, withLedger: withLedger))"
    }

    /// The WHERE clause for the rows of a range that belong to the migration, or with the ledger, for the pending ones among them.
    func rangeClause(_ range: KeyRange, withLedger: Bool, _ more: String = "") -> String {
        whereClause(
            key.terms(key.source, range),
            (withLedger ? " AND \(isUnsettled)" : condition) + more
        )
    }

    /// Rows of the source as `midstream_source`. The key's columns are called `midstream_key0…`, those of the target's columns
    /// `midstream_value` and the column's index. They do not have the columns' collations, since these may be the application's
    /// own, which the engine's connection lacks.
    func renamedRows(_ columns: [Int], _ whereClause: String) -> String {
        let key = key.source.enumerated().map { "\($1) AS midstream_key\($0)" }
        let values = columns.map { "\(self.columns[$0].value) COLLATE BINARY AS midstream_value\($0)" }
        return "(SELECT \(KeySQL.list(key + values)) FROM \(source)\(whereClause)) AS midstream_source"
    }

    /// The names of the key's columns in renamed rows. No column of another table has such a name.
    var keyAliases: [String] { key.source.indices.map { "midstream_source.midstream_key\($0)" } }

    static func valueAlias(_ column: Int) -> String { "midstream_source.midstream_value\(column)" }

    /// The pending keys of a range, in order.
    func pendingKeys(_ range: KeyRange) -> String {
        "SELECT \(KeySQL.list(key.source)) FROM \(source)"
            + rangeClause(range, withLedger: true)
            + " ORDER BY \(key.order(key.source))"
    }

    /// Removes the ledger's entries of a range.
    func forgetSettled(_ range: KeyRange) -> String {
        // SQLite 3.15 does not count what a DELETE without a condition deletes from a table without rowids.
        "DELETE FROM \(ledger) WHERE \(key.condition(key.ledger, range))"
    }

    /// Makes the watermark stand for the key ?1….
    var storeWatermarkKey: String {
        "INSERT OR REPLACE INTO \(watermark)(only, \(KeySQL.list(key.ledger))) "
            + "VALUES (0, \(KeySQL.list(key.parameters(from: 1))))"
    }

    // MARK: Counting

    /// Finds the first key of a slice that ends before the key ?1…, or at the last row. The parameter after the key says how many
    /// rows of the slice follow that key.
    ///
    /// - Parameter shared: How many of the first columns must be equal to those of the key ?1….
    func sliceStart(isEnded: Bool, sharing shared: Int) -> String {
        let terms = key.terms(key.source, KeyRange(first: isEnded ? .before : nil, shared: shared))
        return "SELECT \(KeySQL.list(key.source)) FROM \(source)" + whereClause(terms + key.belonging, "")
            + " ORDER BY \(key.order(key.source, isReversed: true)) LIMIT 1 OFFSET ?\(key.count + 1)"
    }

    /// How many rows of a range belong to the migration.
    ///
    /// - Parameter hashes: Whether the sum of these rows' hashes is asked for as well.
    func countSlice(_ range: KeyRange, hashes: Bool) -> String {
        "SELECT count(*)\(hashes ? ", sum(\(VerificationSQL(self).sourceHash))" : "") FROM \(source)"
            + whereClause(key.terms(key.source, range), condition)
    }

    // MARK: Triggers of the target

    /// The guard triggers: on the target's table, they make a new row meet the pending rows that have one of its keys.
    ///
    /// They call functions that only Midstream's connections have. So SQLite refuses a write of a connection without the overlay
    /// ("no such function"), which could otherwise take a pending row's key. It also refuses a connection whose overlay is of
    /// another move, or of triggers that were created earlier, since one of the functions has a number in its name. The triggers
    /// have no list of columns: with one, an assignment to `rowid` would not fire them.
    ///
    /// - Parameter number: The number in the function's name. Tables that begin together may share one.
    func triggers(of target: TableSchema, number: Int64 = Identifiers.next()) -> [SchemaRow] {
        let fence = "\(GuardTriggers.fence)\(number)()"
        let name = SQLIdentifier.quoted(target.name)
        let columns = Self.keyColumns(of: target).map { target.columns[$0] }
        let rowID = key.isRowID ? [key.target[0]] : []
        let keys = columns.map { column in
            let new = "NEW.\(SQLIdentifier.quoted(column.name))"
            // After the trigger has run, REPLACE puts the default in the place of NULL.
            guard let replacement = column.replacement, !column.isReplacementVolatile else { return new }
            return "ifnull(\(new), \(replacement))"
        }
        let values = ["\(id)"] + (key.isRowID ? ["NEW.\(key.target[0])"] : ["NULL"]) + keys
        let call = "SELECT CASE WHEN 1 THEN midstream_conflict(\(KeySQL.list(values))) ELSE \(fence) END;"
        let changed = (rowID + columns.map { SQLIdentifier.quoted($0.name) })
            // An index may distinguish values that are equal by the column's own collation.
            .map { "NEW.\($0) COLLATE BINARY IS NOT OLD.\($0)" }
            .joined(separator: " OR ")
        func trigger(_ event: String, _ program: String) -> SchemaRow {
            .trigger(
                Self.trigger(event, id),
                on: target.name,
                "BEFORE \(event.uppercased()) ON \(name) \(program)"
            )
        }
        return [
            trigger("insert", "BEGIN \(call) END"),
            trigger("update", "WHEN \(changed.isEmpty ? "1" : changed) BEGIN \(call) END"),
            trigger("delete", "WHEN CASE WHEN 1 THEN 0 ELSE \(fence) END BEGIN SELECT 1; END"),
        ]
    }

    var dropTriggers: [String] { Self.dropTriggers(id) }

    static func dropTriggers(_ id: Int64, in schema: String = "main") -> [String] {
        guards.map { "DROP TRIGGER IF EXISTS \(schema).\(trigger($0, id))" }
    }

    /// The statements for which guard triggers, and the triggers of a fence, are called.
    static let guards = OwnNames.guardedStatements

    static func trigger(_ event: String, _ id: Int64) -> String { "midstream_\(event)_\(id)" }

    /// The columns of all comparable keys, in the order in which the triggers pass them.
    static func keyColumns(of table: TableSchema) -> [Int] {
        table.comparableKeys.flatMap { $0.terms.compactMap(\.column) }
    }
}
