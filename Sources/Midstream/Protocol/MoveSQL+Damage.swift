internal import SQLiteConnection

/// The statements that read a source with damaged pages. The statements of ``MoveSQL`` for one row are here too, since with damaged
/// pages not every way leads to a row.
extension MoveSQL {
    /// How SQLite reaches rows of the source.
    ///
    /// If the key is in an index, or the table has no rowids, a seek goes down to a leaf even if the row is on a page above the
    /// leaf. It reads each row that it compares with completely, including overflow pages. So a seek may not reach rows that are
    /// next to a damaged page.
    enum Way: Hashable, Sendable {
        /// SQLite seeks the key.
        case key
        /// SQLite seeks the place where the row would end, or begin, and goes one row back, or forward.
        case descending, ascending
        /// SQLite reads the keys of all rows: upwards after a key or from the first row on, or downwards from a key or from the
        /// last row on. On its way it reads no other columns.
        case up(after: RowKey?), down(from: RowKey?)
        /// SQLite reads the table itself, although the key has an index of its own.
        case table
    }

    /// The ways to a row whose cost does not depend on the table's length. If the key is not the table's order, the last way is one
    /// whose cost does.
    var ways: [Way] {
        if seeksRowIDs { return [.key] }
        return [.key, .descending, .ascending] + (listings.last == "NOT INDEXED" ? [.table] : [])
    }

    // MARK: One row

    /// FROM and the rest of a query for the row with the key ?1…. The way's own key is in the parameters after the row's key.
    func row(_ way: Way) -> String {
        let parameters = key.parameters(from: 1)
        let last = key.count - 1
        func walk(_ bound: [String], isReversed: Bool) -> String {
            // The `+` makes SQLite compare the key with each row on the way instead of seeking it.
            let terms = bound + [key.equals(key.source.map { "+" + $0 }, parameters)]
            return " FROM \(source) WHERE \(terms.joined(separator: " AND ")) "
                + "ORDER BY \(key.order(key.source, isReversed: isReversed)) LIMIT 1"
        }
        switch way {
        case .key: return " FROM \(source) WHERE \(key.equals(key.source, parameters))"
        case .table: return " FROM \(source) NOT INDEXED WHERE \(key.equals(key.source, parameters)) LIMIT 1"
        case .descending, .ascending:
            let terms =
                (0..<last).map { "\(key.source[$0]) = \(parameters[$0])" }
                + ["\(key.source[last]) >= \(parameters[last])", "\(key.source[last]) <= \(parameters[last])"]
            return " FROM \(source) WHERE \(terms.joined(separator: " AND ")) "
                + "ORDER BY \(key.source[last])\(way == .descending ? " DESC" : "") LIMIT 1"
        case .up: return walk(bound(of: way), isReversed: false)
        case .down: return walk(bound(of: way), isReversed: true)
        }
    }

    private func bound(of way: Way) -> [String] {
        switch way {
        // Next to a damaged page, the comparison must name the rowid of a readable row, since SQLite seeks that rowid.
        case .up(after: .some): [isBeyond(1 + key.count)]
        case .down(from: .some): [key.compares(key.source, .through, key.parameters(from: 1 + key.count))]
        default: []
        }
    }

    /// Binds the key of a row, and the key of the way to it.
    func bind(_ key: RowKey?, _ way: Way, to statement: Statement) throws(SQLiteError) {
        if let key { try statement.bind(key, at: 1) }
        switch way {
        case .up(after: .rowID(let rowID)): try statement.bind(rowID &+ 1, at: 2)
        case .up(after: let end?), .down(from: let end?): try statement.bind(end, at: 1 + self.key.count)
        default: break
        }
    }

    /// Whether the row with the key ?1… belongs to the migration.
    func belongs(_ way: Way) -> String { "SELECT 1\(condition)\(row(way))" }

    // MARK: Keys

    /// The keys that a way reaches, each with whether it is after the key ?1…, if that is given.
    func keys(_ way: Way, isBounded: Bool) -> String {
        let isBeyond = isBounded ? key.compares(key.source, .after, key.parameters(from: 1)) : "1"
        let bound = bound(of: way)
        let isReversed = if case .down = way { true } else { false }
        return "SELECT \(KeySQL.list(key.source)), \(isBeyond) FROM \(source)"
            + whereClause(bound + key.belonging, "") + " ORDER BY \(key.order(key.source, isReversed: isReversed))"
    }

    /// Keys after the key ?1…, if that is given, read by one of `listings`. The parameter after the key says how many.
    ///
    /// This works since an index of a table without rowids contains the PRIMARY KEY's columns, and an index of another table
    /// contains the rowid.
    ///
    /// Source: <https://www.sqlite.org/withoutrowid.html>, <https://www.sqlite.org/lang_indexedby.html>.
    func listedKeys(_ listing: String, isBounded: Bool) -> String {
        "SELECT \(KeySQL.list(key.source)) FROM \(source) \(listing)"
            + whereClause(
                (isBounded ? [key.compares(key.source, .after, key.parameters(from: 1))] : []) + key.belonging,
                ""
            )
            + " ORDER BY \(key.order(key.source)) LIMIT ?\(1 + key.count)"
    }

    /// The first key whose first columns are ?1… or come after that.
    func firstKey(columns count: Int) -> String {
        let columns = Array(key.source.prefix(count))
        let start = key.compares(columns, .from, Array(key.parameters(from: 1).prefix(count)))
        return "SELECT \(KeySQL.list(key.source)) FROM \(source)" + whereClause([start] + key.belonging, "")
            + " ORDER BY \(key.order(key.source)) LIMIT 1"
    }
}
