internal import SQLText
internal import SQLiteConnection

/// How a table's rows are built beside it: by a hidden table for the rows, and one for the entries of each of the
/// table's indexes. The b-trees of these hidden tables have the form of the table's own, so that the table can adopt
/// them in the end.
///
/// The hidden tables are ordinary ones, which other programs check, dump and vacuum as such. The hidden table of the
/// rows has the table's columns and CHECK constraints, and no index. The hidden table of an index has no rowids; its
/// primary key is the index's terms and the row's key. So its records are those of the index, except that a primary key
/// has no NULLs. Entries with NULLs wait in a table of their own, and are written last, past SQLite's check for NULLs.
struct TableBuild {
    /// The first of ``feeds``.
    let sql: MoveSQL
    /// The moves whose rows the build gets, one for each source.
    let feeds: [MoveSQL]
    /// The same moves, with the hidden table in place of the target's table.
    let built: [MoveSQL]
    let name: String
    let createTable: String
    let parts: [Part]
    /// The columns that may have numbers other than integers, as SQL writes them.
    private let reals: Set<String>
    /// The texts of the table and its indexes. They must not have changed when the table adopts the build.
    let definition: String

    /// The texts of statements that run often. Making such a text takes longer than looking it up.
    let texts = Texts()

    final class Texts {
        private struct Key: Hashable {
            var name: String
            var range: KeyRange
        }
        private var made: [Key: String] = [:]

        /// - Parameters:
        ///   - name: What the statement is for.
        ///   - range: The kind of ranges that the statement is for.
        private func text(_ name: String, _ range: KeyRange, _ make: () throws -> String) rethrows -> String {
            let key = Key(name: name, range: range)
            if let text = made[key] { return text }
            let text = try make()
            made[key] = text
            return text
        }

        /// The statement with the text that `make` gives, which is kept.
        func statement(
            _ name: String,
            _ range: KeyRange,
            _ statements: InternalStatements,
            _ make: () throws -> String
        ) throws -> Statement {
            try statements.statement(text(name, range, make))
        }
    }

    /// An index of the table.
    struct Part {
        let number: Int
        let index: String
        /// The hidden table's name.
        let name: String
        /// The definitions of the hidden table's columns, as its text has them, without the primary key.
        fileprivate let columns: String
        /// The definitions of the columns of the table in which entries wait. There an entry is found by the row's key.
        fileprivate let columnsOfWaiting: String
        /// The values of a row that an entry of the index has, in the order of the terms.
        let values: [String]
        let terms: [IndexWalk.Term]
        fileprivate let keyCount: Int
        /// Those of the terms that are the row's key.
        let keyTerms: [IndexWalk.Term]
        /// The condition of the rows that the index has; `nil` for all rows.
        let condition: String?
        /// Those of the values that may be NULL.
        let nullable: [String]
        /// The places of the terms that may be NULL, in the index or in the source's index that is walked through. That
        /// index may have NULLs in entries of superseded rows, which the target does not take.
        let nullablePlaces: [Int]
        /// A walk through the source's index that has the same entries; `nil` if there is none.
        let walk: IndexWalk?

        var relation: String { "main." + SQLIdentifier.quoted(name) }
        /// The table in which entries with NULLs wait for the end of the build.
        var waiting: String { "main." + SQLIdentifier.quoted(name + OwnNames.ofNulls) }
        /// The table of the entries by which the source's index that is walked through differs from the rows of the
        /// build. Its column `is_built` says whether these rows have the entry.
        var edits: String { "main." + SQLIdentifier.quoted(name + OwnNames.ofEdits) }

        /// - Parameter keys: How many of the terms are the primary key. For a unique index, it is the index's own
        ///   terms, so that no values are there twice.
        private func create(_ name: String, keys: Int) -> String {
            let terms = KeySQL.list(terms.prefix(keys).map(\.ordered))
            // SQLite takes no schema's name in the text of an imposter.
            return "CREATE TABLE \(SQLIdentifier.quoted(name))(\(columns), PRIMARY KEY(\(terms))) WITHOUT ROWID"
        }

        var create: [String] {
            let waiting = nullable.isEmpty ? [] : ["CREATE TABLE \(waiting)(\(columnsOfWaiting))"]
            let key = KeySQL.list(terms.map(\.ordered))
            let edits =
                walk == nil
                ? [] : ["CREATE TABLE \(edits)(\(columns), is_built INT, PRIMARY KEY(\(key))) WITHOUT ROWID"]
            return [create(name, keys: keyCount)] + waiting + edits
        }

        /// The text of the imposter table by which entries with NULLs are written. In a unique index, such entries may
        /// be there several times.
        var createImposter: String { create(Imposter.name, keys: terms.count) }

        /// A condition: whether a row's entry has no NULL; `nil` if no entry of the index has one.
        var hasNoNull: String? {
            nullable.isEmpty ? nil : nullable.map { "(\($0)) IS NOT NULL" }.joined(separator: " AND ")
        }

        /// A condition: whether the index has an entry of a row, either one with NULLs or one without.
        func has(nulls: Bool) -> String {
            let belongs = condition.map { ["(\($0)\n)"] } ?? []
            let isOfPass = nulls ? hasNoNull.map { "NOT (\($0))" } ?? "0" : hasNoNull
            return (belongs + [isOfPass].compactMap(\.self)).joined(separator: " AND ")
        }

        /// A condition: whether an entry has no NULL; empty if no entry of the index has one.
        var hasNoNullByName: String {
            nullablePlaces.map { "\(terms[$0].name) IS NOT NULL" }.joined(separator: " AND ")
        }

        /// Notes which entries of the source's index the rows of the build do not have.
        ///
        /// - Parameter condition: Which rows of the source are looked at.
        func leaving(_ build: TableBuild, _ walk: IndexWalk, _ condition: String) -> String {
            "INSERT INTO \(edits) SELECT *, 0 FROM (\(walk.entries(where: condition))) AS midstream_entry "
                + "WHERE \(differs(from: build.rows, values))"
        }

        /// Notes which entries the rows of the build have and the source's index does not have.
        ///
        /// - Parameter condition: Which rows of the build are looked at.
        func coming(_ build: TableBuild, _ walk: IndexWalk, _ condition: String) -> String {
            let columns = zip(values, terms).map { "\($0) AS \($1.name)" }
            let entries = "SELECT \(KeySQL.list(columns)) FROM \(build.rows) WHERE \(condition)"
            return "INSERT OR REPLACE INTO \(edits) SELECT *, 1 FROM (\(entries)) AS midstream_entry "
                + "WHERE \(differs(from: walk.table, walk.names))"
        }

        /// A condition: whether the entry `midstream_entry` has no NULL, and the row with its key does not have the
        /// same entry, bit for bit.
        private func differs(from relation: String, _ values: [String]) -> String {
            let own = terms.map { "midstream_entry.\($0.name)" }
            let equal = zip(own, values).map { "\($1) COLLATE BINARY IS \($0)" }
            let key = "\(values[values.count - 1]) = \(own[own.count - 1])"
            let isSame = [key] + equal + ["\(RowHash.call(values)) = \(RowHash.call(own))"]
            return
                (nullablePlaces.map { "\(own[$0]) IS NOT NULL" }
                + ["NOT EXISTS (SELECT 1 FROM \(relation) WHERE \(isSame.joined(separator: " AND ")))"])
                .joined(separator: " AND ")
        }

        /// A condition: whether an entry is the one with the values ?1, ?2, ….
        var isEntry: String { Self.equal(terms) }

        /// Deletes the waiting entry of the row with the key ?1…. The statement deletes by the rowid that the entry has
        /// in the waiting table: SQLite (3.40) takes a row for damaged if it is found by several columns and one of
        /// them has the collation RTRIM.
        var deleteWaiting: String {
            "DELETE FROM \(waiting) WHERE rowid IN (SELECT rowid FROM \(waiting) WHERE \(Self.equal(keyTerms)))"
        }

        /// A condition: whether terms have the values ?1, ?2, ….
        private static func equal(_ terms: [IndexWalk.Term]) -> String {
            terms.enumerated().map { "\($1.sought) = ?\($0 + 1)" }.joined(separator: " AND ")
        }

        /// The order of the index's entries, by what they have of rows, or by the names of the terms.
        func order(_ names: [String]) -> String {
            zip(names, terms).map { name, term in
                term.named(name).ordered
            }.joined(separator: ", ")
        }
    }

    /// - Parameters:
    ///   - feeds: The moves whose rows the build gets.
    ///   - sources: The tables of these moves' sources.
    /// - Returns: `nil` if the rows are to be inserted into the table itself.
    init?(_ feeds: [MoveSQL], target: TableSchema, sources: [TableSchema], in connection: Connection) throws {
        let indexes = target.indexes.filter { target.hasRowID || !$0.isPrimaryKey }
        guard let sql = feeds.first,
            !feeds.contains(where: \.firesTriggers), !indexes.isEmpty,
            !target.columns.indices.contains(where: target.mayHoldTruthValues),
            let definition = try SchemaReader(connection: connection, schema: "main").definition(of: target.name),
            let text = Self.createTable(target, named: OwnNames.build(sql.id))
        else { return nil }
        self.sql = sql
        self.feeds = feeds
        // If a source, a condition or a mapping changes, another build begins.
        self.definition = feeds.reduce(definition) {
            "\($0)\n\($1.id): \($1.selectRange(KeyRange(), withLedger: false))"
        }
        let isReal: (TableSchema.Column) -> Bool = {
            $0.affinity == .real || $0.affinity == .blob || $0.affinity == .numeric
        }
        reals = Set(target.columns.filter(isReal).map { SQLIdentifier.quoted($0.name) })
        name = OwnNames.build(sql.id)
        createTable = text
        built = feeds.map { [name] in $0.into(name) }
        var parts: [Part] = []
        for (offset, index) in indexes.enumerated() {
            guard let part = try Self.part(offset + 1, index, sql, target, sources, connection) else { return nil }
            parts.append(part)
        }
        self.parts = parts
    }

    /// The tables of the superseded keys.
    var ledgers: [String] { feeds.map(\.ledger) }

    /// The hidden table of the rows, as SQL writes it.
    var table: String { built[0].target }

    /// A range of keys for all sources. If SQLite would seek by the first column alone in one of them, the range is
    /// made for that source.
    func range(after lower: RowKey?, through upper: RowKey?) -> KeyRange {
        (feeds.first(where: \.key.isSoughtByFirst) ?? sql).key.range(after: lower, through: upper)
    }

    /// Copies the pending rows of the sources in a range, together with the live table's rows, in the order of the
    /// keys.
    func copyTogether(_ range: KeyRange, undoing refusal: MoveSQL.Refusal) -> String {
        let pending = feeds.map { $0.selectRange(range, withLedger: true) }
        let live = "SELECT \(sql.insertedColumns) FROM \(sql.target) WHERE \(sql.key.condition(sql.key.target, range))"
        let places = (sql.rowIDColumn.map { [$0] } ?? sql.key.columns).compactMap { sql.written.firstIndex(of: $0) }
        // A rowid that is no column comes last.
        let names = (places.isEmpty ? [sql.written.count] : places).map { "\($0 + 1)" }
        return "\(built[0].insert(undoing: refusal)) \((pending + [live]).joined(separator: " UNION ALL ")) "
            + "ORDER BY \(sql.key.order(sql.key.collated(names)))"
    }

    func mayBeReal(_ column: String) -> Bool { reals.contains(column) }

    /// The table of the keys whose rows were merged, or were built as the application had written them. The other rows
    /// are the source's.
    var merged: String { "main." + SQLIdentifier.quoted(name + OwnNames.ofMerged) }

    var create: [String] {
        [createTable] + parts.flatMap(\.create)
            + ["CREATE TABLE \(merged)(\(sql.key.ledgerColumns))\(sql.key.ledgerOptions)"]
    }

    /// The hidden table of the rows, under the name of the live table.
    var rows: String { "main.\(SQLIdentifier.quoted(name)) AS \(SQLIdentifier.quoted(sql.targetName))" }

    /// Copies the live row with the key ?1…, if there is one.
    var copyLive: String {
        let columns = sql.insertedColumns
        return
            "INSERT INTO \(table)(\(columns)) SELECT \(columns) FROM \(sql.target) WHERE \(isSought)"
    }

    /// A condition: whether a row has the key ?1….
    var isSought: String { sql.key.equals(sql.key.target, sql.key.parameters(from: 1)) }

    /// Selects the keys in ``merged``.
    var mergedKeys: String { "SELECT \(KeySQL.list(sql.key.ledger)) FROM \(merged)" }

    /// The sum of the hashes of the source's rows. A hash is made as in `VerificationSQL`.
    var sumOfRows: String {
        let hash = RowHash.call(sql.key.target + sql.writtenColumns.map(SQLIdentifier.quoted))
        return "sum(CASE WHEN \(KeySQL.tuple(sql.key.target)) IN (\(mergedKeys)) THEN NULL ELSE \(hash) END)"
    }

    /// For each index: how many entries rows have in it; how many of these have NULLs; and, if an index of the source
    /// is walked through, the sum of the hashes of the entries without NULLs.
    var sums: [String] {
        parts.flatMap { part in
            func count(_ condition: String) -> String { "sum(CASE WHEN \(condition) THEN 1 ELSE 0 END)" }
            let belongs = part.condition.map { "(\($0)\n)" }
            let nulls = part.hasNoNull == nil ? "0" : count(part.has(nulls: true))
            let hash = "sum(CASE WHEN \(part.hasNoNull ?? "1") THEN \(RowHash.call(part.values)) END)"
            return [belongs.map(count) ?? "count(*)", nulls, part.walk == nil ? "0" : hash]
        }
    }

    /// The text of the table, without what makes indexes, and without foreign keys, by which other tables would change
    /// its rows.
    private static func createTable(_ target: TableSchema, named name: String) -> String? {
        guard let definition = CreateTable(target.sql) else { return nil }
        var kinds: Set<CreateTable.Kind> = [.unique, .foreignKey]
        if target.hasRowID, target.rowIDColumn == nil {
            // Without its primary key, a STRICT table would take NULL in these columns.
            if target.isStrict, target.indexes.contains(where: \.isPrimaryKey) { return nil }
            kinds.insert(.primaryKey)
        }
        return CreateTable(definition.removing(kinds))?.named(name)
    }

    private static func part(
        _ number: Int,
        _ index: TableSchema.Index,
        _ sql: MoveSQL,
        _ target: TableSchema,
        _ sources: [TableSchema],
        _ connection: Connection
    ) throws -> Part? {
        let text: String? = try connection.fetchValue(
            "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?",
            [index.name]
        )
        let texts = text.map { IndexTerms($0) }
        guard texts.map({ $0.terms.count == index.terms.count && ($0.condition != nil) == index.isPartial }) != false
        else { return nil }
        var (values, types, nullable): ([String], [String], [String]) = ([], [], [])
        var nullablePlaces: [Int] = []
        var terms: [IndexWalk.Term] = []
        for (place, term) in (index.terms + index.rest).enumerated() {
            if let column = term.column {
                let entry = entry(of: column, target)
                values.append(entry.value)
                types.append(entry.type)
                if entry.mayBeNull { nullable.append(entry.value) }
            } else {
                guard let texts, place < texts.terms.count else { return nil }
                values.append("(\(texts.terms[place]))")
                types.append("")
                nullable.append(values[place])
            }
            // This matters only if an index of the source is walked through.
            let isNullInSource = term.column.map { $0 >= 0 && Self.mayBeNull($0, sql, target, sources[0]) } ?? true
            if nullable.contains(values[place]) || isNullInSource { nullablePlaces.append(place) }
            let name = "c\(place)"
            terms.append(IndexWalk.Term(name: name, collation: term.collation, isDescending: term.isDescending))
        }
        let columns = zip(terms, types).map { $1.isEmpty ? $0.name : "\($0.name) \($1)" }
        guard let keyTerms = keyTerms(index, terms, target, sql.key) else { return nil }
        let waiting =
            sql.key.isRowID
            ? columns.dropLast() + [keyTerms[0].name + " INTEGER PRIMARY KEY"]
            : columns + ["PRIMARY KEY(\(KeySQL.list(keyTerms.map(\.sought))))"]
        return Part(
            number: number,
            index: index.name,
            name: OwnNames.build(sql.id, part: number),
            columns: KeySQL.list(columns),
            columnsOfWaiting: KeySQL.list(waiting),
            values: values,
            terms: terms,
            keyCount: index.isUnique ? index.terms.count : terms.count,
            keyTerms: keyTerms,
            condition: texts?.condition,
            nullable: nullable,
            nullablePlaces: nullablePlaces,
            walk: sources.count == 1 ? walk(index, terms, sql, target, sources[0]) : nil
        )
    }

    /// What an index has of a column, and the type that the column has in the hidden table.
    private static func entry(of column: Int, _ target: TableSchema) -> (value: String, type: String, mayBeNull: Bool) {
        // With the type INTEGER, a primary key of one column would be of the rowid's kind.
        if column < 0 { return (target.rowIDName ?? "rowid", "INT", false) }
        let definition = target.columns[column]
        return (
            SQLIdentifier.quoted(definition.name),
            definition.affinity == .integer ? "INT" : definition.affinity.typeName,
            column != target.rowIDColumn && !definition.isNotNull
        )
    }

    /// The terms of an index that are the row's key: the last term, which is the rowid, or those of the primary key.
    /// `nil` if the index does not have all of these.
    private static func keyTerms(
        _ index: TableSchema.Index,
        _ terms: [IndexWalk.Term],
        _ target: TableSchema,
        _ key: KeySQL
    ) -> [IndexWalk.Term]? {
        if key.isRowID { return Array(terms.suffix(1)) }
        let places = zip(key.columns, key.names).compactMap { column, name in
            (index.terms + index.rest).firstIndex {
                $0.column == column && SQLIdentifier.equal($0.collation, name.collation)
            }
        }
        return places.count == key.count ? places.map { terms[$0] } : nil
    }

    /// Whether a column of the target may be NULL in the source.
    private static func mayBeNull(_ column: Int, _ sql: MoveSQL, _ target: TableSchema, _ source: TableSchema) -> Bool {
        column != target.rowIDColumn && !(sql.columns[column].plain.map { source.columns[$0].isNotNull } ?? false)
    }

    /// A walk through an index of the source that has the same entries in the same order; `nil` if there is none.
    private static func walk(
        _ index: TableSchema.Index,
        _ terms: [IndexWalk.Term],
        _ sql: MoveSQL,
        _ target: TableSchema,
        _ source: TableSchema
    ) -> IndexWalk? {
        // The rows must have the same keys on both sides, and all of them must belong.
        guard sql.condition.isEmpty, sql.key.belonging.isEmpty, !index.isPartial, target.hasRowID, sql.seeksRowIDs,
            let rowID = source.rowIDName
        else { return nil }
        /// The source's column whose values a term has unchanged.
        func origin(_ term: TableSchema.Index.Term) -> Int? {
            guard let column = term.column else { return nil }
            if column < 0 { return column }
            guard let plain = sql.columns[column].plain else { return nil }
            let isSame = target.columns[column].affinity == source.columns[plain].affinity
            return isSame && source.columns[plain].generation == nil ? plain : nil
        }
        func isSame(_ term: TableSchema.Index.Term, _ own: TableSchema.Index.Term) -> Bool {
            term.column != nil && term.column == origin(own) && term.isDescending == own.isDescending
                && SQLIdentifier.equal(term.collation, own.collation)
        }
        let same = source.indexes.first { other in
            !other.isPartial && other.terms.count == index.terms.count
                && zip(other.terms, index.terms).allSatisfy(isSame)
        }
        guard let same else { return nil }
        let names =
            same.terms.compactMap(\.column)
            .map { $0 < 0 ? rowID : SQLIdentifier.quoted(source.columns[$0].name) } + [rowID]
        let isInOwnOrder = same.terms.allSatisfy { term in
            guard let column = term.column, column >= 0 else { return true }
            return SQLIdentifier.equal(term.collation, source.columns[column].collation)
        }
        let isRowIDLast = names.prefix(terms.count).firstIndex(of: rowID) == terms.count - 1
        return IndexWalk(
            table: "\(sql.source) AS midstream_source",
            index: same.name,
            terms: zip(terms, names).map { term, name in
                // In ORDER BY, a name alone would mean the selected column of that name.
                term.named("midstream_source.\(name)")
            },
            hasRanges: isInOwnOrder && isRowIDLast && !terms.contains(where: \.isDescending)
        )
    }
}
