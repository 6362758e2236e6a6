internal import SQLiteConnection

/// What is read of a source with damaged pages. The statements of ``MoveSQL`` for one row have their place here as well, since
/// not every way leads to a row then.
extension MoveSQL {
    /// How SQLite comes to rows of the source.
    ///
    /// Where the key is in an index, as it is without rowids, a seek goes down to a leaf even if the row is on a page above it,
    /// and reads all of each row that it compares with, overflow pages and all. Rows beside a damaged page may so be out of
    /// its reach.
    enum Way: Hashable, Sendable {
        /// It seeks the key.
        case key
        /// It seeks where the row would end, or begin, and goes one row back, or on.
        case descending, ascending
        /// It reads the keys of all rows after one, or from the first on; of all through one, or from the last down. It reads
        /// no other columns on its way.
        case up(after: RowKey?), down(from: RowKey?)
        /// It reads the table itself where the key has an index of its own.
        case table
    }

    /// The ways to a row that take no longer in a long table, and one that does, where the key is not the table's order.
    var ways: [Way] {
        if seeksRowIDs { return [.key] }
        return [.key, .descending, .ascending] + (listings.last == "NOT INDEXED" ? [.table] : [])
    }

    // MARK: One row

    /// FROM and what follows for the row with the key ?1…. The way's own key is among the parameters after that.
    func row(_ way: Way) -> String {
        let parameters = key.parameters(from: 1)
        let last = key.count - 1
        func walk(_ bound: [String], isReversed: Bool) -> String {
            // Only what is no index's term is compared on the way.
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
        // Beside a damaged page, the comparison must name the rowid of a row that can be read: SQLite seeks that.
        case .up(after: .some): [isBeyond(1 + key.count)]
        case .down(from: .some): [key.compares(key.source, .through, key.parameters(from: 1 + key.count))]
        default: []
        }
    }

    /// Binds the key of a row and what the way to it needs.
    func bind(_ key: RowKey?, _ way: Way, to statement: Statement) throws(SQLiteError) {
        if let key { try statement.bind(key, at: 1) }
        switch way {
        case .up(after: .rowID(let rowID)): try statement.bind(rowID &+ 1, at: 2)
        case .up(after: let end?), .down(from: let end?): try statement.bind(end, at: 1 + self.key.count)
        default: break
        }
    }

    /// Whether the row with the key ?1… belongs.
    func belongs(_ way: Way) -> String { "SELECT 1\(condition)\(row(way))" }

    // MARK: Keys

    /// The keys that a way comes to, and whether they are after the key ?1…, if it is given.
    func keys(_ way: Way, isBounded: Bool) -> String {
        let isBeyond = isBounded ? key.compares(key.source, .after, key.parameters(from: 1)) : "1"
        let bound = bound(of: way)
        let isReversed = if case .down = way { true } else { false }
        return "SELECT \(KeySQL.list(key.source)), \(isBeyond) FROM \(source)"
            + whereClause(bound + key.belonging, "") + " ORDER BY \(key.order(key.source, isReversed: isReversed))"
    }

    /// Keys after the key ?1…, if it is given, by one of `listings`: as many as the parameter after it says.
    ///
    /// An index of a table without rowids has the PRIMARY KEY's columns, and one of another has the rowid.
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

    /// The first key from where its first columns are ?1….
    func firstKey(columns count: Int) -> String {
        let columns = Array(key.source.prefix(count))
        let start = key.compares(columns, .from, Array(key.parameters(from: 1).prefix(count)))
        return "SELECT \(KeySQL.list(key.source)) FROM \(source)" + whereClause([start] + key.belonging, "")
            + " ORDER BY \(key.order(key.source)) LIMIT 1"
    }
}
