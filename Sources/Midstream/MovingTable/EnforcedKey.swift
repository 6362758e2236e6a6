internal import SQLText
internal import SQLiteConnection

/// A table of the target that a foreign key connects with a moving one.
struct KeyTable {
    let schema: TableSchema
    /// `nil` if the table does not move.
    let moving: MovingTable?
    /// The names by which `main` tells the table's rows apart.
    let rowNames: [String]

    /// `main."T"`
    var name: String { "main." + SQLIdentifier.quoted(schema.name) }

    init?(_ schema: TableSchema, _ moving: MovingTable?) {
        self.schema = schema
        self.moving = moving
        if schema.hasRowID {
            guard let name = schema.rowIDName else { return nil }
            rowNames = [name]
        } else {
            rowNames = schema.primaryKey.compactMap(\.column).map { SQLIdentifier.quoted(schema.columns[$0].name) }
            if rowNames.isEmpty { return nil }
        }
    }

    /// A condition for the row with the key ?1….
    func isRow(_ alias: String = "") -> String {
        rowNames.enumerated().map { "\(alias)\($1) = ?\($0 + 1)" }.joined(separator: " AND ")
    }

    func quoted(_ column: Int) -> String { SQLIdentifier.quoted(schema.columns[column].name) }

    /// The columns of all keys of the table by which a new row can replace another, as a trigger passes them on. As in
    /// the guard triggers, the rowid comes first, or NULL.
    var newKeys: [String] {
        let columns = MoveSQL.keyColumns(of: schema).map { newValue($0) }
        return [schema.hasRowID ? "NEW.\(rowNames[0])" : "NULL"] + columns
    }

    /// A column of the new row, as it will be. REPLACE puts the default in the place of NULL after the trigger has run.
    func newValue(_ column: Int) -> String {
        let value = "NEW.\(quoted(column))"
        return schema.columns[column].replacement.map { "ifnull(\(value), \($0))" } ?? value
    }

    /// For each of the table's comparable keys: the query for the row of `main` that has the values ?1….
    var conflictLookups: [String] {
        schema.comparableKeys.map { index in
            let terms = index.terms.enumerated().map { offset, term in
                let column = term.column.map { $0 >= 0 ? quoted($0) : rowNames[0] } ?? "NULL"
                return "\(column) = ?\(offset + 1) COLLATE \(SQLIdentifier.quoted(term.collation))"
            }
            return "SELECT \(KeySQL.list(rowNames)) FROM \(name) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
        }
    }
}

/// A foreign key of which one end moves, or both, with the SQL that finds the rows at either end.
///
/// The SQL may find more rows than SQLite would, but never fewer. Too many do no harm, since a row may be promoted at
/// any time. It has more than 15 stored properties: texts of SQL, which are made once.
struct EnforcedKey {
    /// The tables by their places in ``KeyActions``.
    let child: Int
    let parent: Int
    let childColumns: [Int]
    /// Which of the moving parent's comparable keys this key refers to, and in which order that one has the columns;
    /// `nil` for the rowid.
    private let parentIndex: (ordinal: Int, order: [Int])?
    /// Whether the child's column is the rowid, which SQLite may choose after the triggers have run.
    let isOfRowID: Bool
    let definition: ForeignKey
    /// The values of the child's columns in `main`'s row ?1…, and in the source's row ?1….
    let valuesInTarget: String
    let valuesInSource: String
    /// Whether `main` has a parent with the values ?1….
    let parentInTarget: String
    /// Whether `main` has a child of the source's parent ?1….
    let childInTarget: String
    /// Whether `main` has a child with the values ?1… in the parent's columns.
    let orphanInTarget: String
    /// Whether the source's row ?1… refers to itself by values that SQLite takes for equal while it inserts the row. It compares them
    /// without affinities then, unless the parent's column is the rowid.
    let isOfItself: String
    /// The key of the pending parent with the values ?1…, without a bound and with one.
    private let parentLookup: (unbounded: String, bounded: String)
    /// The keys of the pending children of `main`'s row ?1…, without a bound and with one.
    private let childLookup: (unbounded: String, bounded: String)
    /// Whether there is a pending child of a row with the values ?1… in the parent's columns, without a bound and with
    /// one.
    private let orphanLookup: (unbounded: String, bounded: String)
    /// The places of the parent's columns among what a trigger passes on: see ``KeyTable/newKeys``.
    let newParentPlaces: [Int]

    var count: Int { childColumns.count }

    /// - Returns: `nil` if Midstream cannot tell exactly which rows are at the other end.
    init?(_ key: ForeignKey, child: (Int, KeyTable), parent: (Int, KeyTable)) {
        guard let ends = KeyEnds(key, child: child.1, parent: parent.1), let newParentPlaces = ends.newParentPlaces
        else {
            return nil
        }
        self.child = child.0
        self.parent = parent.0
        childColumns = ends.columns
        isOfRowID = ends.columns.contains { $0 == child.1.schema.rowIDColumn }
        definition = key
        valuesInTarget = ends.valuesInTarget
        parentInTarget = ends.parentInTarget
        orphanInTarget = ends.orphanInTarget
        self.newParentPlaces = newParentPlaces

        if let moving = child.1.moving {
            guard let mapped = ends.mapped(moving.sql) else { return nil }
            valuesInSource = KeyEnds.values(of: mapped, moving.sql)
            isOfItself = child.0 == parent.0 ? ends.isOfItself(mapped, moving.sql) : ""
            childLookup = ends.children(of: mapped, moving.sql)
            orphanLookup = ends.orphans(of: mapped, moving.sql)
        } else {
            valuesInSource = ""
            isOfItself = ""
            childLookup = ("", "")
            orphanLookup = ("", "")
        }

        guard let moving = parent.1.moving else {
            parentIndex = nil
            parentLookup = ("", "")
            childInTarget = ""
            return
        }
        if ends.areOfParentRowID {
            parentIndex = nil
            parentLookup = KeyEnds.parentByRowID(moving.sql)
        } else {
            guard let index = ends.index(of: moving) else { return nil }
            parentIndex = index
            parentLookup = (moving.keyLookups.unbounded[index.ordinal], moving.keyLookups.bounded[index.ordinal])
        }
        childInTarget = ends.childInTarget(moving.sql)
    }

    /// The key of the pending parent of a child.
    ///
    /// - Parameter bind: Binds the value at a place in the child's columns to the parameter with that number.
    func pendingParent(
        in moving: MovingTable,
        _ bind: (_ place: Int, Statement, _ parameter: Int) throws -> Void
    ) throws -> RowKey? {
        let state = try moving.state()
        guard state.lowerBound != nil else { return nil }
        let lookup = try moving.statement(state.bound != nil ? parentLookup.bounded : parentLookup.unbounded)
        defer { lookup.reset() }
        for (offset, place) in (parentIndex?.order ?? [0]).enumerated() { try bind(place, lookup, offset + 1) }
        try state.bindBound(lookup, at: count + 1)
        return try lookup.step() ? moving.key.read(lookup) : nil
    }

    /// Whether there are pending children of a row that is about to be inserted, or to get its key.
    func hasPendingChildren(in moving: MovingTable, _ bind: (_ place: Int, Statement, _ parameter: Int) throws -> Void)
        throws
        -> Bool
    {
        let state = try moving.state()
        guard state.lowerBound != nil else { return false }
        let lookup = try moving.statement(state.bound != nil ? orphanLookup.bounded : orphanLookup.unbounded)
        defer { lookup.reset() }
        for place in 0..<count { try bind(place, lookup, place + 1) }
        try state.bindBound(lookup, at: count + 1)
        return try lookup.step()
    }

    /// The keys of the pending children of a row of `main`.
    func pendingChildren(of row: RowKey, in moving: MovingTable) throws -> [RowKey] {
        let state = try moving.state()
        guard state.lowerBound != nil else { return [] }
        let lookup = try moving.statement(state.bound != nil ? childLookup.bounded : childLookup.unbounded)
        defer { lookup.reset() }
        try lookup.bind(row, at: 1)
        try state.bindBound(lookup, at: 1 + row.values.count)
        var keys: [RowKey] = []
        while try lookup.step() { keys.append(try moving.key.read(lookup)) }
        return keys
    }
}

/// The columns that a foreign key connects, with the SQL that ``EnforcedKey`` has of them.
private struct KeyEnds {
    let child: KeyTable
    let parent: KeyTable
    /// The child's columns, and the parent's.
    let columns: [Int]
    let places: [Int]
    /// How the parent's columns compare.
    let collations: [String]

    init?(_ key: ForeignKey, child: KeyTable, parent: KeyTable) {
        guard let places = key.places(in: parent.schema) else { return nil }
        let columns = key.columns.compactMap(child.schema.columnIndex)
        guard columns.count == places.count else { return nil }
        for column in columns {
            let column = child.schema.columns[column]
            if column.generation != nil || column.isReplacementVolatile { return nil }
        }
        self.child = child
        self.parent = parent
        self.columns = columns
        self.places = places
        collations = places.map { SQLIdentifier.quoted(parent.schema.columns[$0].collation) }
        // SQLite finds no rowid by a REAL column's integer, though the two are equal: such a row breaks its key.
        if areOfParentRowID, child.schema.columns[columns[0]].affinity == .real { return nil }
    }

    /// Whether the parent's column is its rowid.
    var areOfParentRowID: Bool { places == [parent.schema.rowIDColumn] }

    /// The values of the child's columns in `main`'s row ?1….
    var valuesInTarget: String {
        "SELECT \(KeySQL.list(columns.map(child.quoted))) FROM \(child.name) WHERE \(child.isRow())"
    }

    /// Whether `main` has a parent with the values ?1….
    var parentInTarget: String {
        let terms = places.enumerated().map { "\(parent.quoted($1)) = ?\($0 + 1)" }
        return "SELECT 1 FROM \(parent.name) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
    }

    /// Whether `main` has a child with the values ?1… in the parent's columns.
    var orphanInTarget: String {
        let terms = places.indices.map { isOfParent(child.quoted(columns[$0]), $0) }
        return "SELECT 1 FROM \(child.name) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
    }

    /// Whether a value of a child refers to the parent whose value at that position is a parameter. SQLite compares by the affinities of
    /// both columns, and a parameter has none.
    private func isOfParent(_ value: String, _ position: Int) -> String {
        let (parameter, collation) = ("?\(position + 1)", "COLLATE \(collations[position])")
        let equals = "\(value) = \(parameter) \(collation)"
        if [.text, .blob].contains(parent.schema.columns[places[position]].affinity) { return equals }
        return "(\(equals) OR \(value) = CAST(\(parameter) AS NUMERIC) \(collation))"
    }

    /// See ``EnforcedKey/newParentPlaces``; `nil` if the triggers do not pass on all of the parent's columns.
    var newParentPlaces: [Int]? {
        let keyColumns = MoveSQL.keyColumns(of: parent.schema)
        let found = places.compactMap { place in
            place == parent.schema.rowIDColumn ? 0 : keyColumns.firstIndex(of: place).map { $0 + 1 }
        }
        return found.count == places.count ? found : nil
    }

    // MARK: Where the child moves

    /// What the child's columns are made of; `nil` if a column is made of something that compares in another way.
    func mapped(_ sql: MoveSQL) -> [MappedColumns.Column]? {
        let mapped = columns.map { sql.columns[$0] }
        // SQLite compares by affinity, and an expression has none.
        return mapped.allSatisfy { $0.converted("") == "" } ? mapped : nil
    }

    /// The values of the child's columns in the source's row ?1….
    static func values(of mapped: [MappedColumns.Column], _ sql: MoveSQL) -> String {
        "SELECT \(KeySQL.list(mapped.map(\.value))) FROM \(sql.source) "
            + "WHERE \(sql.key.equals(sql.key.source, sql.key.parameters(from: 1)))"
    }

    /// See ``EnforcedKey/isOfItself``.
    func isOfItself(_ mapped: [MappedColumns.Column], _ sql: MoveSQL) -> String {
        let terms = zip(mapped, places).map { child, place in
            let parent = sql.columns[place].value
            return areOfParentRowID ? "\(child.value) = \(parent)" : "+\(child.value) = +\(parent) COLLATE BINARY"
        }
        return "SELECT 1 FROM \(sql.source) WHERE \(sql.key.equals(sql.key.source, sql.key.parameters(from: 1))) "
            + "AND \(terms.joined(separator: " AND "))"
    }

    /// The keys of the pending children of `main`'s row ?1….
    ///
    /// To find out whether a row has children, SQLite compares by the affinities of both columns. For an action, it gives the parent's
    /// value no affinity, so that a TEXT child of an untyped parent equals more.
    func children(of mapped: [MappedColumns.Column], _ sql: MoveSQL) -> (unbounded: String, bounded: String) {
        let terms = places.indices.map { position in
            let sign = parent.schema.columns[places[position]].affinity == .blob ? "+" : ""
            return "\(mapped[position].value) = (SELECT \(sign)midstream_parent.\(parent.quoted(places[position])) "
                + "FROM \(parent.name) AS midstream_parent WHERE \(parent.isRow("midstream_parent."))) "
                + "COLLATE \(collations[position])"
        }
        func lookup(_ isBounded: Bool) -> String {
            "SELECT \(KeySQL.list(sql.key.source)) FROM \(sql.source) WHERE \(terms.joined(separator: " AND ")) "
                + (isBounded ? "AND \(sql.isBeyond(1 + parent.rowNames.count)) " : "")
                + "AND \(sql.isUnsettled)"
        }
        return (lookup(false), lookup(true))
    }

    /// Whether there is a pending child of a row with the values ?1… in the parent's columns.
    func orphans(of mapped: [MappedColumns.Column], _ sql: MoveSQL) -> (unbounded: String, bounded: String) {
        let terms = places.indices.map { isOfParent(mapped[$0].value, $0) }
        func lookup(_ isBounded: Bool) -> String {
            "SELECT 1 FROM \(sql.source) WHERE \(terms.joined(separator: " AND ")) "
                + (isBounded ? "AND \(sql.isBeyond(1 + places.count)) " : "") + "AND \(sql.isUnsettled) LIMIT 1"
        }
        return (lookup(false), lookup(true))
    }

    // MARK: Where the parent moves

    /// The key of the pending parent with the rowid ?1.
    static func parentByRowID(_ sql: MoveSQL) -> (unbounded: String, bounded: String) {
        let name = sql.key.source[0]
        func lookup(_ isBounded: Bool) -> String {
            "SELECT \(name) FROM \(sql.source) WHERE \(name) = ?1 \(isBounded ? "AND \(sql.isBeyond(2)) " : "")"
                + "AND \(sql.isUnsettled) LIMIT 1"
        }
        return (lookup(false), lookup(true))
    }

    /// Which of the moving parent's comparable keys has the parent's columns, and in which order.
    func index(of moving: MovingTable) -> (ordinal: Int, order: [Int])? {
        func hasOwnCollation(_ term: TableSchema.Index.Term) -> Bool {
            guard let column = term.column, column >= 0 else { return false }
            return SQLIdentifier.equal(term.collation, parent.schema.columns[column].collation)
        }
        let keys = moving.comparableKeys
        let ordinal = keys.firstIndex { index in
            index.terms.count == places.count && Set(index.terms.compactMap(\.column)) == Set(places)
                && index.terms.allSatisfy(hasOwnCollation)
        }
        guard let ordinal else { return nil }
        return (ordinal, keys[ordinal].terms.compactMap { term in places.firstIndex { $0 == term.column } })
    }

    /// Whether `main` has a child of the source's parent ?1….
    func childInTarget(_ sql: MoveSQL) -> String {
        let row = sql.key.equals(sql.key.source, sql.key.parameters(from: 1))
        let terms = places.indices.map { position in
            "midstream_child.\(child.quoted(columns[position])) = (SELECT \(sql.columns[places[position]].value) "
                + "FROM \(sql.source) WHERE \(row)) COLLATE \(collations[position])"
        }
        return "SELECT 1 FROM \(child.name) AS midstream_child WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
    }
}
