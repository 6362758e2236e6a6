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

        fileprivate var sought: String { "\(name) COLLATE \(SQLIdentifier.quoted(collation))" }
        var ordered: String { sought + (isDescending ? " DESC" : "") }
    }

    /// The table, and by which index it is read.
    let relation: String
    let terms: [Term]

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

    /// The names of the terms.
    var names: [String] { terms.map(\.name) }

    /// The first entries of a piece, of which the parameter behind those of the terms says the number, as `c0`, `c1`, ….
    func entries(_ piece: Piece) -> String {
        let columns = terms.enumerated().map { "\($1.name) AS c\($0)" }
        return "SELECT \(KeySQL.list(columns)) FROM \(relation) WHERE \(piece.condition) ORDER BY \(piece.order) "
            + "LIMIT ?\(terms.count + 1)"
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
