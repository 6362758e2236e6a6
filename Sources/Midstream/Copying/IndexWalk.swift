internal import SQLText
internal import SQLiteConnection

/// A walk through the entries of an index, in the index's order and in slices. A slice begins after the entry with
/// which the last slice ended.
///
/// An entry has the index's terms, and after them the row's key. SQLite cannot seek the entries after another one as a
/// single range, since terms may descend and have NULLs. So these entries are sought in pieces, beginning with those
/// that share most terms with that one.
struct IndexWalk: Sendable {
    struct Term: Hashable, Sendable {
        /// The column, as SQL writes it.
        var name: String
        var collation: String
        var isDescending = false

        /// This term with another column.
        func named(_ name: String) -> Term { Term(name: name, collation: collation, isDescending: isDescending) }

        var sought: String { "\(name) COLLATE \(SQLIdentifier.quoted(collation))" }
        var ordered: String { sought + (isDescending ? " DESC" : "") }
    }

    /// The table, and the index by which SQLite reads it; `nil` if the table itself has that order.
    let table: String
    var index: String?
    let terms: [Term]
    /// Whether SQLite can seek what is between two entries: if all terms ascend by their columns' own collations, and
    /// the last term, and no other, is the rowid.
    var hasRanges = false

    private var relation: String { index.map { "\(table) INDEXED BY \(SQLIdentifier.quoted($0))" } ?? table }

    /// A piece of the entries after another one. The parameters of its condition are the values of that entry.
    struct Piece {
        let condition: String
        let order: String
    }

    /// The entries after `entry`, in the index's order; all entries if it is `nil`. NULLs come first in a
    /// term that ascends, and last in one that descends.
    func following(_ entry: [ExactValue]?) -> [Piece] {
        guard let entry else { return [Piece(condition: "1", order: order(from: 0))] }
        return terms.indices.reversed().flatMap { place -> [Piece] in
            let equal = (0..<place).map { "\(terms[$0].sought) IS ?\($0 + 1)" }
            let name = terms[place].sought
            let compared: [String]
            switch (terms[place].isDescending, entry[place] == .null) {
            case (false, false): compared = ["\(name) > ?\(place + 1)"]
            case (false, true): compared = ["\(name) IS NOT NULL"]
            case (true, false): compared = ["\(name) < ?\(place + 1)", "\(name) IS NULL"]
            case (true, true): compared = []
            }
            return compared.map {
                Piece(condition: (equal + [$0]).joined(separator: " AND "), order: order(from: place))
            }
        }
    }

    private func order(from place: Int) -> String { KeySQL.list(terms[place...].map(\.ordered)) }

    /// The entries between which others are sought.
    struct Ends: Hashable {
        var hasFirst: Bool
        var hasSecond: Bool
        /// Whether the two entries differ only in the rowid.
        var isOneGroup = false
    }

    /// The entries between two others. The values of the first are the parameters ?1…; those of the second are the
    /// parameters after the one of ``entries(_:)``. Either may be missing. Neither has NULLs.
    ///
    /// SQLite does not compare the rowid in a range of row values. So each of the two has a piece for the entries that
    /// differ from it only in the rowid.
    ///
    /// - Parameter places: The places of the terms that may be NULL. Entries with NULLs there are left out.
    func between(_ ends: Ends, notNull places: [Int]) -> [Piece] {
        let (group, count) = (Array(names.dropLast()), terms.count)
        let rowID = names[count - 1]
        func parameters(_ first: Int) -> [String] { group.indices.map { "?\(first + $0)" } }
        func equals(_ first: Int) -> String {
            zip(group, parameters(first)).map { "\($0) IS \($1)" }.joined(separator: " AND ")
        }
        func compares(_ comparison: String, _ first: Int) -> String {
            "\(KeySQL.tuple(group)) \(comparison) \(KeySQL.tuple(parameters(first)))"
        }
        let (first, second) = (1, count + 2)
        let (isAfter, isBefore) = ("\(rowID) > ?\(count)", "\(rowID) < ?\(2 * count + 1)")
        var conditions: [[String]] = []
        if ends.isOneGroup {
            conditions = [[equals(first), isAfter, isBefore]]
        } else {
            // The two entries may be of one group all the same, since collations call different values equal.
            if ends.hasFirst {
                conditions.append(
                    [equals(first), isAfter] + (ends.hasSecond ? ["(\(compares("<", second)) OR \(isBefore))"] : [])
                )
            }
            conditions.append(
                (ends.hasFirst ? [compares(">", first)] : []) + (ends.hasSecond ? [compares("<", second)] : [])
            )
            if ends.hasSecond {
                conditions.append([equals(second), isBefore] + (ends.hasFirst ? [compares(">", first)] : []))
            }
        }
        let isWhole = places.map { "\(names[$0]) IS NOT NULL" }
        // Each piece must have all parameters.
        let last = "?\(ends.hasSecond ? 2 * count + 1 : count + 1) IS NOT NULL"
        return conditions.map {
            Piece(condition: ($0 + isWhole + [last]).joined(separator: " AND "), order: order(from: 0))
        }
    }

    var names: [String] { terms.map(\.name) }

    /// The first entries of a piece, as `c0`, `c1`, …. The parameter after those of the terms says how many.
    func entries(_ piece: Piece) -> String {
        let columns = terms.enumerated().map { "\($1.name) AS c\($0)" }
        return "SELECT \(KeySQL.list(columns)) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT ?\(terms.count + 1)"
    }

    /// The first entries of a piece, with one more column.
    func entries(_ piece: Piece, with column: String) -> String {
        "SELECT \(KeySQL.list(names + [column])) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT ?\(terms.count + 1)"
    }

    /// The entries of rows that are found in another way than by the index, as `c0`, `c1`, ….
    func entries(where condition: String) -> String {
        let columns = terms.enumerated().map { "\($1.name) AS c\($0)" }
        return "SELECT \(KeySQL.list(columns)) FROM \(table) WHERE \(condition)"
    }

    /// The last of the first entries of a piece, if there are as many as the parameter says.
    func last(_ piece: Piece) -> String {
        "SELECT \(KeySQL.list(names)) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT 1 OFFSET ?\(terms.count + 1) - 1"
    }

    /// How many entries a piece has, and the sum of their hashes. The parameter after those of the terms must be above
    /// 0.
    func sum(_ piece: Piece) -> String {
        "SELECT count(*), sum(\(RowHash.call(names))) FROM \(relation) WHERE \(piece.condition) AND ?\(terms.count + 1) > 0"
    }
}
