import Midstream
import SQLiteConnection

/// All that a statement shows.
struct Outcome {
    var columns: [String] = []
    var rows: [[SQLiteValue]] = []
    /// The code and message of SQLite's error.
    var failure: String?
    /// An error that is not SQLite's.
    var foreignFailure: String?
    /// Whether there are more rows than are worth comparing.
    var isTooLong = false
    /// Whether the statement was a write that took too long.
    var isEndless = false
    var changes: Int64 = 0
    var lastInsertRowID: Int64 = 0
    var isInTransaction = false

    mutating func note(_ error: any Error) {
        if let error = error as? SQLiteError {
            failure = "\(error.code.rawValue): \(error.message)"
        } else {
            foreignFailure = "\(error)"
        }
    }
}

extension Outcome {
    /// What differs from what native SQLite showed; `nil` if nothing does.
    func difference(from native: Outcome, order: Command.Order, isLoose: Bool) -> String? {
        func compare<Value: Equatable>(_ what: String, _ mine: Value, _ theirs: Value) -> String? {
            mine == theirs ? nil : "\(what): native \(theirs), Midstream \(mine)"
        }
        if let foreignFailure { return "error: native \(native.failure ?? "none"), Midstream \(foreignFailure)" }
        if let failure, let other = native.failure, [failure, other].allSatisfy(Self.isAboutNames) { return nil }
        if let text = compare("error", failure ?? "none", native.failure ?? "none") { return text }
        if let text = rowDifference(from: native, order: order, isLoose: isLoose) { return text }
        if columns.count != native.columns.count || !zip(columns, native.columns).allSatisfy(Self.areSameNames) {
            return "columns: native \(native.columns), Midstream \(columns)"
        }
        return compare("changes", changes, native.changes)
            ?? compare("lastInsertRowID", lastInsertRowID, native.lastInsertRowID)
            ?? compare("isInTransaction", isInTransaction, native.isInTransaction)
    }

    /// What differs in the rows.
    func rowDifference(from native: Outcome, order: Command.Order, isLoose: Bool = false) -> String? {
        var mine = isLoose ? rows.map { $0.map(Self.loosened) } : rows
        var theirs = isLoose ? native.rows.map { $0.map(Self.loosened) } : native.rows
        if order != .total {
            mine = Self.sorted(mine)
            theirs = Self.sorted(theirs)
        }
        if mine == theirs { return nil }
        return "rows: native \(Self.text(native.rows))\n      Midstream \(Self.text(rows))"
    }

    /// If several names do not exist, SQLite reports the one on which it comes first. If several foreign keys name no
    /// unique columns, SQLite reports the first in the order of a hash table that has all tables.
    private static func isAboutNames(_ failure: String) -> Bool {
        [
            "1: no such ", "1: circular reference: ", "1: recursive reference in a subquery: ",
            "1: ambiguous column name: ", "1: foreign key mismatch - ",
        ].contains(where: failure.hasPrefix)
    }

    /// Natively, `rowid` has the name of the INTEGER PRIMARY KEY, even if a column is called `oid`. It is not certain
    /// that the table is a moving one.
    ///
    /// Source: <https://www.sqlite.org/c3ref/column_name.html>.
    private static func areSameNames(_ mine: String, _ native: String) -> Bool {
        mine == native || ["rowid", "oid", "_rowid_"].contains(mine.lowercased())
    }

    /// Makes values the same that are equal by a collation or by number.
    private static func loosened(_ value: SQLiteValue) -> SQLiteValue {
        switch value {
        case .real(let double): return Int64(exactly: double).map { .integer($0) } ?? value
        case .text(let text):
            var lower = text.map { $0.isASCII ? Character($0.lowercased()) : $0 }
            while lower.last == " " { lower.removeLast() }
            return .text(String(lower))
        default: return value
        }
    }

    private static func sorted(_ rows: [[SQLiteValue]]) -> [[SQLiteValue]] {
        rows.map { ($0.map(literal).joined(separator: ","), $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    }

    private static func text(_ rows: [[SQLiteValue]]) -> String {
        let shown = rows.prefix(60).map { "(" + $0.map(literal).joined(separator: ", ") + ")" }.joined(separator: " ")
        return "\(rows.count) \(shown)"
    }
}
