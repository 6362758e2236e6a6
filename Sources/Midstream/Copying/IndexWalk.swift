internal import SQLText
internal import SQLiteConnection

/// A walk through the entries of an index in its own order, in slices, from the entry where the last slice ended.
///
/// An entry has the index's terms and behind them the row's key. What follows an entry is no one range for SQLite, since terms may
/// descend and have NULLs: it is sought in pieces, those entries first that share most terms with it.
struct IndexWalk: Sendable {
    struct Term: Hashable, Sendable {
        /// The column, as SQL writes it.
        var name: String
        var collation: String
        var isDescending = false

        /// The same of another column.
        func named(_ name: String) -> Term { Term(name: name, collation: collation, isDescending: isDescending) }

        var sought: String { "\(name) COLLATE \(SQLIdentifier.quoted(collation))" }
        var ordered: String { sought + (isDescending ? " DESC" : "") }
    }

    /// The table, and the index by which it is read; `nil` where it has that order itself.
    let table: String
    var index: String?
    let terms: [Term]
    /// Whether SQLite seeks what is between two entries: where all terms ascend by their columns' own collations, and the last one, and no
    /// other, is the rowid.
    var hasRanges = false

    private var relation: String { index.map { "\(table) INDEXED BY \(SQLIdentifier.quoted($0))" } ?? table }

    /// A piece of what follows an entry: the conditions of its entries, whose parameters are the entry's values.
    struct Piece {
        let condition: String
        let order: String
    }

    /// What follows an entry, in the index's order; all entries where there is none. In some terms NULLs come first, in others last.
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

    /// Between which entries something is.
    struct Ends: Hashable {
        var hasFirst: Bool
        var hasSecond: Bool
        /// Whether they differ in the rowid alone.
        var isOneGroup = false
    }

    /// What is between two entries, the first of which is that of the parameters ?1…, and the second that of the parameters behind
    /// the one of ``entries(_:)``. Either may be missing. Neither has NULLs.
    ///
    /// SQLite compares no rowid in a range of row values, so each end has a piece for the entries that differ from it in that alone.
    ///
    /// - Parameter places: Those of the terms that may be NULL, and are not in what is between.
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
            // By its collations, an entry may be of the other one's group all the same.
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
        // Each has all parameters.
        let last = "?\(ends.hasSecond ? 2 * count + 1 : count + 1) IS NOT NULL"
        return conditions.map {
            Piece(condition: ($0 + isWhole + [last]).joined(separator: " AND "), order: order(from: 0))
        }
    }

    /// The names of the terms.
    var names: [String] { terms.map(\.name) }

    /// The first entries of a piece, of which the parameter behind those of the terms says the number, as `c0`, `c1`, ….
    func entries(_ piece: Piece) -> String {
        let columns = terms.enumerated().map { "\($1.name) AS c\($0)" }
        return "SELECT \(KeySQL.list(columns)) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT ?\(terms.count + 1)"
    }

    /// The first entries of a piece, with a column more.
    func entries(_ piece: Piece, with column: String) -> String {
        "SELECT \(KeySQL.list(names + [column])) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT ?\(terms.count + 1)"
    }

    /// The entries that rows have which are found by another way than the index, as `c0`, `c1`, ….
    func entries(where condition: String) -> String {
        let columns = terms.enumerated().map { "\($1.name) AS c\($0)" }
        return "SELECT \(KeySQL.list(columns)) FROM \(table) WHERE \(condition)"
    }

    /// The last of those entries, if there are as many.
    func last(_ piece: Piece) -> String {
        "SELECT \(KeySQL.list(names)) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT 1 OFFSET ?\(terms.count + 1) - 1"
    }

    /// How many entries a piece has, and the sum of their hashes. The parameter behind those of the terms is above 0.
    func sum(_ piece: Piece) -> String {
        "SELECT count(*), sum(\(RowHash.call(names))) FROM \(relation) WHERE \(piece.condition) AND ?\(terms.count + 1) > 0"
    }
}
