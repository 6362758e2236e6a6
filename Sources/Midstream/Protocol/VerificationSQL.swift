internal import SQLText
internal import SQLiteConnection

/// The SQL that compares copied rows with the rows that they came from.
struct VerificationSQL {
    let sql: MoveSQL
    let target: [String]

    init(_ sql: MoveSQL) {
        self.sql = sql
        target = sql.writtenColumns.map { "midstream_target." + SQLIdentifier.quoted($0) }
    }

    private var targetKeys: [String] { sql.key.target.map { "midstream_target.\($0)" } }

    /// Whether the columns are equal. The column that is the rowid is left out, since it is the key.
    private var isEqual: String {
        let columns = zip(sql.written, target).filter { $0.0 != sql.rowIDColumn }
        if columns.isEmpty { return "1" }
        return Self.conjunctions(columns.map { "\(MoveSQL.valueAlias($0)) COLLATE BINARY IS \($1)" })
            .joined(separator: " AND ")
    }

    /// Combines terms that must all hold, in groups. SQLite allows expressions to be 1,000 levels deep, and a table may have 2,000
    /// columns.
    static func conjunctions(_ terms: [String]) -> [String] {
        stride(from: 0, to: terms.count, by: 100)
            .map { "(\(terms[$0..<min($0 + 100, terms.count)].joined(separator: " AND ")))" }
    }

    /// How many rows of a range the target has exactly as the source has them, and the sum of these rows' hashes.
    func equalRows(_ range: KeyRange, withLedger: Bool, hashes: Bool) -> String {
        "SELECT count(*)\(hashes ? ", sum(\(RowHash.call(targetKeys + target)))" : "") "
            + "FROM \(sql.renamedRows(sql.written, sql.rangeClause(range, withLedger: withLedger))) "
            + "CROSS JOIN \(sql.target) AS midstream_target "
            + "WHERE \(isSameRow)"
    }

    /// Whether `midstream_target`, a row of the target, equals the row of the source whose renamed columns are next to it.
    var isSameRow: String { "\(sql.key.equals(targetKeys, sql.keyAliases)) AND \(isEqual)" }

    /// Whether the two rows are identical, for rows that a statement may have changed from one to the other: SQLite calls 1 and 1.0
    /// equal, and 0.0 and -0.0.
    var isIdenticalRow: String {
        let values = sql.written.map(MoveSQL.valueAlias)
        let types = zip(values, target).map { "typeof(\($0)) = typeof(\($1))" }
        let hashes = "\(RowHash.call(sql.keyAliases + values)) = \(RowHash.call(targetKeys + target))"
        return ([isSameRow, hashes] + Self.conjunctions(types)).joined(separator: " AND ")
    }

    /// The first key of a range for which the target has a different row, or none.
    func firstDifference(_ range: KeyRange, withLedger: Bool) -> String {
        "SELECT \(KeySQL.list(sql.keyAliases)) "
            + "FROM \(sql.renamedRows(sql.written, sql.rangeClause(range, withLedger: withLedger))) "
            + "WHERE NOT EXISTS (SELECT 1 FROM \(sql.target) AS midstream_target "
            + "WHERE \(isSameRow)) LIMIT 1"
    }

    /// The sum of the hashes of those rows of a range that statements have brought over.
    func settledHashes(_ range: KeyRange) -> String {
        "SELECT sum(\(sourceHash)) FROM \(sql.source)"
            // Without the CASE, SQLite would go through the whole ledger instead of the range.
            + sql.rangeClause(
                range,
                withLedger: false,
                " AND CASE WHEN \(sql.isSettled) THEN 1 ELSE 0 END"
            )
    }

    /// The hash of a row of the source, with the values that the row has in the target.
    var sourceHash: String { RowHash.call(sql.key.source + sql.written.map { sql.columns[$0].value }) }
}

/// The SQL function that hashes a row's key and values to a number of 32 bits. A sum of such numbers does not overflow.
enum RowHash {
    /// As commonly built, SQLite takes at most 100 arguments.
    private static let mostArguments = 90

    static func call(_ values: [String]) -> String {
        var calls: [String] = []
        var rest = values[...]
        while !rest.isEmpty {
            calls.append("midstream_hash(\(calls.count), \(KeySQL.list(Array(rest.prefix(mostArguments)))))")
            rest = rest.dropFirst(mostArguments)
        }
        return calls.joined(separator: " + ")
    }

    static func define(on connection: Connection) throws(SQLiteError) {
        let flags: FunctionFlags = [.deterministic, .innocuous]
        try connection.createFunction("midstream_hash", argumentCount: -1, flags: flags) { $1.set(hash(of: $0)) }
    }

    private static func hash(of values: ValueReferences) -> Int64 {
        var hash = FNV()
        for index in 0..<values.count { hash.add(values[index].value) }
        return Int64(truncatingIfNeeded: (hash.state ^ hash.state >> 32) & 0xffff_ffff)
    }

    /// Source: <http://www.isthe.com/chongo/tech/comp/fnv/>, FNV-1a of 64 bits.
    private struct FNV {
        var state: UInt64 = 0xcbf2_9ce4_8422_2325

        mutating func add(_ value: SQLiteValue) {
            switch value {
            case .null: add(byte: 0)
            case .integer(let integer):
                add(byte: 1)
                add(bits: UInt64(bitPattern: integer))
            case .real(let double):
                add(byte: 2)
                add(bits: double.bitPattern)
            case .text(let text):
                add(byte: 3)
                for byte in text.utf8 { add(byte: byte) }
            case .blob(let bytes):
                add(byte: 4)
                for byte in bytes { add(byte: byte) }
            }
        }

        private mutating func add(bits: UInt64) {
            for shift in stride(from: 0, to: 64, by: 8) { add(byte: UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }
        }

        private mutating func add(byte: UInt8) {
            state = (state ^ UInt64(byte)) &* 0x100_0000_01b3
        }
    }
}
