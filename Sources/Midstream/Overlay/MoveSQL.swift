internal import SQLText

/// The SQL that the engine runs on the two sides of a moving table. All of it is within SQLite 3.15.
struct MoveSQL: Sendable {
    let id: Int64
    /// `main."T"`
    let target: String
    /// `"schema"."S"`
    let source: String
    /// The names by which the rowids are reached.
    let targetKey: String
    let sourceKey: String
    /// Whether the rowids are no column's, so that VACUUM may change them.
    let hasImplicitKey: Bool
    /// `main.midstream_ledger_…`
    let ledger: String
    /// The target's name when it is AUTOINCREMENT.
    let sequenceName: String?
    /// `AND (…)`, or nothing.
    let condition: String
    /// The columns of the target that are written, and what of the source is written into them.
    let insertedColumns: String
    let selectedColumns: String

    init(record: TableRecord, migration: MigrationRecord, target: TableSchema, source: TableSchema) {
        id = record.id
        self.target = "main." + SQLIdentifier.quoted(target.name)
        self.source = SQLIdentifier.quoted(migration.schema) + "." + SQLIdentifier.quoted(source.name)
        targetKey = target.rowIDName ?? "rowid"
        sourceKey = source.rowIDName ?? "rowid"
        ledger = "main." + record.ledger
        state = Self.state(record.id, ledger)
        sequenceName = target.isAutoIncrement ? target.name : nil
        condition = record.condition.map { " AND (\($0)\n)" } ?? ""
        let columns = target.columns.map { SQLIdentifier.quoted($0.name) }
        let implicit = target.rowIDColumn == nil
        hasImplicitKey = implicit
        insertedColumns = ((implicit ? [targetKey] : []) + columns).joined(separator: ", ")
        selectedColumns = ((implicit ? [sourceKey] : []) + columns).joined(separator: ", ")
    }

    /// Phase, watermark, ceiling, and whether the ledger has entries.
    let state: String

    private static func state(_ id: Int64, _ ledger: String) -> String {
        "SELECT phase, watermark, ceiling, EXISTS (SELECT 1 FROM \(ledger)) FROM main.midstream_tables WHERE id = \(id)"
    }

    /// Source rows that no statement has settled yet. Combine with a lower bound to get the pending ones.
    var isUnsettled: String { "\(sourceKey) NOT IN (SELECT key FROM \(ledger))\(condition)" }

    /// The number of rows on both sides, in one statement and so in one snapshot.
    func wholeCount(named name: String) -> String {
        "SELECT (SELECT count(*) FROM \(target)) + ifnull((SELECT CASE WHEN phase <> \(MigrationPhase.copying.rawValue) THEN 0 "
            + "WHEN total IS NOT NULL THEN total - copied - settled - (SELECT count(*) FROM \(ledger)) "
            + "WHEN watermark IS NULL THEN (SELECT count(*) FROM \(source)\(condition.isEmpty ? "" : " WHERE 1" + condition)) "
            + "- (SELECT count(*) FROM \(ledger)) "
            + "ELSE (SELECT count(*) FROM \(source) WHERE (watermark IS NULL OR \(sourceKey) > watermark) AND \(isUnsettled)) "
            + "END FROM main.midstream_tables WHERE id = \(id)), 0) AS \(SQLIdentifier.quoted(name))"
    }

    // MARK: One row

    /// Whether the row with key ?1, which is not below the lower bound, is pending.
    var isPending: String { "SELECT 1 FROM \(source) WHERE \(sourceKey) = ?1 AND \(isUnsettled)" }

    /// Whether the target has the row with key ?1.
    var isInTarget: String { "SELECT 1 FROM \(target) WHERE \(targetKey) = ?1" }

    /// Copies the row with key ?1. `OR ABORT` stands above what the target's constraints say of conflicts.
    var copyRow: String {
        "INSERT OR ABORT INTO \(target)(\(insertedColumns)) SELECT \(selectedColumns) FROM \(source) WHERE \(sourceKey) = ?1"
    }

    /// Notes that the row with key ?1 is no longer pending.
    var settle: String { "INSERT INTO \(ledger)(key) VALUES (?1)" }

    /// For each unique index: the first pending key from ?1 on whose row has the values ?2, ?3, ….
    ///
    /// The comparison is the target's: an explicit collation takes precedence over the source column's own.
    func keyLookups(of target: TableSchema) -> [String] {
        target.uniqueIndexes.map { index in
            let terms = index.terms.enumerated().map { offset, term in
                let column = term.column.flatMap { $0 >= 0 ? SQLIdentifier.quoted(target.columns[$0].name) : nil }
                return "\(column ?? sourceKey) = ?\(offset + 2) COLLATE \(SQLIdentifier.quoted(term.collation))"
            }
            return "SELECT \(sourceKey) FROM \(source) WHERE \(terms.joined(separator: " AND ")) "
                + "AND \(sourceKey) >= ?1 AND \(isUnsettled) LIMIT 1"
        }
    }

    var largestTargetKey: String { "SELECT max(\(targetKey)) FROM \(target)" }
    var largestSourceKey: String { "SELECT max(\(sourceKey)) FROM \(source)" }

    /// The largest pending key from ?1 to ?2.
    var largestPendingKey: String {
        "SELECT \(sourceKey) FROM \(source) WHERE \(sourceKey) BETWEEN ?1 AND ?2 AND \(isUnsettled) "
            + "ORDER BY \(sourceKey) DESC LIMIT 1"
    }

    var storeCeiling: String { "UPDATE main.midstream_tables SET ceiling = ?1 WHERE id = \(id)" }

    // MARK: Many rows

    /// The key that is ?2 rows after the first one from ?1 on.
    var upperKey: String {
        "SELECT \(sourceKey) FROM \(source) WHERE \(sourceKey) >= ?1 ORDER BY \(sourceKey) LIMIT 1 OFFSET ?2"
    }

    /// The key of the ?2-th pending row after the first one from ?1 on.
    var upperPendingKey: String {
        "SELECT \(sourceKey) FROM \(source) WHERE \(sourceKey) >= ?1 AND \(isUnsettled) "
            + "ORDER BY \(sourceKey) LIMIT 1 OFFSET ?2"
    }

    /// What a copy of many rows undoes when the target refuses one.
    enum Refusal: String {
        case statement = "ABORT"
        /// The transaction. SQLite keeps no statement journal then, a copy of each page that the statement changes.
        ///
        /// Source: <https://www.sqlite.org/tempfiles.html>, section 2.5.
        case transaction = "ROLLBACK"
    }

    /// Copies the pending rows from ?1 to ?2.
    func copyRange(withLedger: Bool, undoing refusal: Refusal) -> String {
        "INSERT OR \(refusal.rawValue) INTO \(target)(\(insertedColumns)) SELECT \(selectedColumns) FROM \(source) "
            + "WHERE \(sourceKey) BETWEEN ?1 AND ?2" + (withLedger ? " AND \(isUnsettled)" : condition)
    }

    /// The pending keys from ?1 to ?2.
    var pendingKeys: String {
        "SELECT \(sourceKey) FROM \(source) WHERE \(sourceKey) BETWEEN ?1 AND ?2 AND \(isUnsettled) "
            + "ORDER BY \(sourceKey)"
    }

    /// Forgets the ledger's entries up to ?1.
    var forgetSettled: String { "DELETE FROM \(ledger) WHERE key <= ?1" }

    /// Moves the watermark to ?1 and counts ?2 rows copied and ?3 settled.
    var advance: String {
        "UPDATE main.midstream_tables SET watermark = ?1, copied = copied + ?2, settled = settled + ?3 WHERE id = \(id)"
    }

    /// Of the ?2 rows below ?1, from the largest down: how many there are, how many belong, and the smallest key.
    var countSlice: String {
        "SELECT count(*), \(condition.isEmpty ? "count(*)" : "count(CASE WHEN belongs THEN 1 END)"), min(key) FROM "
            + "(SELECT \(sourceKey) AS key\(condition.isEmpty ? "" : ", (1\(condition)) AS belongs") FROM \(source) "
            + "WHERE \(sourceKey) <= ?1 ORDER BY \(sourceKey) DESC LIMIT ?2)"
    }

    // MARK: Triggers of the target

    /// The triggers on the target's table by which a new row meets pending rows of the same key.
    ///
    /// They call functions that only Midstream's connections have, so that a connection without the overlay is refused
    /// ("no such function") instead of taking a pending row's key. They have no list of columns, since an assignment to
    /// `rowid` would not fire them then.
    func triggers(of target: TableSchema) -> [String] {
        let name = SQLIdentifier.quoted(target.name)
        let columns = Self.keyColumns(of: target).map { target.columns[$0] }
        let keyColumns = columns.map { SQLIdentifier.quoted($0.name) }
        let keys = columns.map { column in
            let new = "NEW.\(SQLIdentifier.quoted(column.name))"
            // REPLACE puts the default in the place of NULL after the trigger has run.
            return column.replacement.map { "ifnull(\(new), \($0))" } ?? new
        }
        let call =
            "SELECT midstream_conflict(" + (["\(id)", "NEW.\(targetKey)"] + keys).joined(separator: ", ") + ");"
        let changed = ([targetKey] + keyColumns).map { "NEW.\($0) IS NOT OLD.\($0)" }.joined(separator: " OR ")
        return [
            "CREATE TRIGGER main.\(Self.trigger("insert", id)) BEFORE INSERT ON \(name) BEGIN \(call) END",
            "CREATE TRIGGER main.\(Self.trigger("update", id)) BEFORE UPDATE ON \(name) WHEN \(changed) BEGIN \(call) END",
            "CREATE TRIGGER main.\(Self.trigger("delete", id)) BEFORE DELETE ON \(name) "
                + "WHEN CASE WHEN 1 THEN 0 ELSE midstream_guard() END BEGIN SELECT 1; END",
        ]
    }

    var dropTriggers: [String] {
        ["insert", "update", "delete"].map { "DROP TRIGGER IF EXISTS main.\(Self.trigger($0, id))" }
    }

    static func trigger(_ event: String, _ id: Int64) -> String { "midstream_\(event)_\(id)" }

    /// The columns of all unique indexes, in the order in which the triggers pass them.
    static func keyColumns(of table: TableSchema) -> [Int] {
        table.uniqueIndexes.flatMap { $0.terms.compactMap(\.column) }
    }
}
