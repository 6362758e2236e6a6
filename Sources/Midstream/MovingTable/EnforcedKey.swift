internal import SQLText
internal import SQLiteConnection

/// A table of the target that a foreign key connects with a moving one.
struct KeyTable {
    let schema: TableSchema
    /// `nil` where the table does not move.
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

    /// The columns of all keys of the table by which a new row can replace another, as a trigger hands them over: the rowid or NULL
    /// first, as the guard triggers do.
    var newKeys: [String] {
        let columns = MoveSQL.keyColumns(of: schema).map { newValue($0) }
        return [schema.hasRowID ? "NEW.\(rowNames[0])" : "NULL"] + columns
    }

    /// A column of the new row, as it will be. REPLACE puts the default in the place of NULL after the trigger has run.
    func newValue(_ column: Int) -> String {
        let value = "NEW.\(quoted(column))"
        return schema.columns[column].replacement.map { "ifnull(\(value), \($0))" } ?? value
    }

    /// For each of those keys: the row of `main` that has the values ?1….
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
/// What is looked up may be more than SQLite would find, since a row may be promoted at any time, but never less.
struct EnforcedKey {
    /// The tables by their places in ``KeyActions``.
    let child: Int
    let parent: Int
    let childColumns: [Int]
    /// Which of the moving parent's comparable keys it is, and in which order that has the columns; `nil` for the rowid.
    private let parentIndex: (ordinal: Int, order: [Int])?
    /// Whether the child's column is the rowid, which SQLite may choose after the triggers have run.
    let isOfRowID: Bool
    /// The values of the child's columns in `main`'s row ?1…, and in the source's row ?1….
    let valuesInTarget: String
    let valuesInSource: String
    /// Whether `main` has a parent with the values ?1….
    let parentInTarget: String
    /// Whether `main` has a child of the source's parent ?1….
    let childInTarget: String
    /// Whether `main` has a child with the values ?1… in the parent's columns.
    let orphanInTarget: String
    /// The key of the pending parent with the values ?1…, without a bound and with one.
    private let parentLookup: (unbounded: String, bounded: String)
    /// The keys of the pending children of `main`'s row ?1…, without a bound and with one.
    private let childLookup: (unbounded: String, bounded: String)
    /// Whether there is a pending child of a row with the values ?1… in the parent's columns, likewise.
    private let orphanLookup: (unbounded: String, bounded: String)
    /// Where a trigger hands over the parent's columns: see ``KeyTable/newKeys``.
    let newParentPlaces: [Int]

    var count: Int { childColumns.count }

    /// - Returns: `nil` where the rows at the other end cannot be told exactly.
    init?(_ key: ForeignKey, child: (Int, KeyTable), parent: (Int, KeyTable)) {
        let (childTable, parentTable) = (child.1, parent.1)
        guard let places = key.places(in: parentTable.schema) else { return nil }
        let columns = key.columns.compactMap(childTable.schema.columnIndex)
        guard columns.count == places.count else { return nil }
        for column in columns {
            let column = childTable.schema.columns[column]
            if column.generation != nil || column.isReplacementVolatile { return nil }
        }
        // SQLite finds no rowid by a REAL column's integer, though the two are equal: such a row breaks its key.
        if places == [parentTable.schema.rowIDColumn], childTable.schema.columns[columns[0]].affinity == .real {
            return nil
        }
        self.child = child.0
        self.parent = parent.0
        childColumns = columns
        isOfRowID = columns.contains { $0 == childTable.schema.rowIDColumn }
        valuesInTarget =
            "SELECT \(KeySQL.list(columns.map(childTable.quoted))) FROM \(childTable.name) WHERE \(childTable.isRow())"
        let terms = places.enumerated().map { "\(parentTable.quoted($1)) = ?\($0 + 1)" }
        parentInTarget = "SELECT 1 FROM \(parentTable.name) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
        let collations = places.map { SQLIdentifier.quoted(parentTable.schema.columns[$0].collation) }

        let orphans = places.indices.map { position in
            "\(childTable.quoted(columns[position])) = ?\(position + 1) COLLATE \(collations[position])"
        }
        orphanInTarget = "SELECT 1 FROM \(childTable.name) WHERE \(orphans.joined(separator: " AND ")) LIMIT 1"

        let keyColumns = MoveSQL.keyColumns(of: parentTable.schema)
        newParentPlaces = places.compactMap { place in
            place == parentTable.schema.rowIDColumn ? 0 : keyColumns.firstIndex(of: place).map { $0 + 1 }
        }
        guard newParentPlaces.count == places.count else { return nil }

        if let moving = childTable.moving {
            let mapped = columns.map { moving.sql.columns[$0] }
            // An expression has no affinity, by which SQLite compares.
            guard mapped.allSatisfy({ $0.converted("") == "" }) else { return nil }
            let sql = moving.sql
            valuesInSource =
                "SELECT \(KeySQL.list(mapped.map(\.value))) FROM \(sql.source) "
                + "WHERE \(sql.key.equals(sql.key.source, sql.key.parameters(from: 1)))"
            let terms = places.indices.map { position in
                "\(mapped[position].value) = (SELECT midstream_parent.\(parentTable.quoted(places[position])) "
                    + "FROM \(parentTable.name) AS midstream_parent WHERE \(parentTable.isRow("midstream_parent."))) "
                    + "COLLATE \(collations[position])"
            }
            func lookup(_ isBounded: Bool) -> String {
                "SELECT \(KeySQL.list(sql.key.source)) FROM \(sql.source) WHERE \(terms.joined(separator: " AND ")) "
                    + (isBounded ? "AND \(sql.isBeyond(1 + parentTable.rowNames.count)) " : "")
                    + "AND \(sql.isUnsettled)"
            }
            childLookup = (lookup(false), lookup(true))
            func orphan(_ isBounded: Bool) -> String {
                let terms = places.indices.map { "\(mapped[$0].value) = ?\($0 + 1) COLLATE \(collations[$0])" }
                return "SELECT 1 FROM \(sql.source) WHERE \(terms.joined(separator: " AND ")) "
                    + (isBounded ? "AND \(sql.isBeyond(1 + places.count)) " : "") + "AND \(sql.isUnsettled) LIMIT 1"
            }
            orphanLookup = (orphan(false), orphan(true))
        } else {
            valuesInSource = ""
            childLookup = ("", "")
            orphanLookup = ("", "")
        }

        guard let moving = parentTable.moving else {
            parentIndex = nil
            parentLookup = ("", "")
            childInTarget = ""
            return
        }
        let sql = moving.sql
        if places == [parentTable.schema.rowIDColumn] {
            parentIndex = nil
            let name = sql.key.source[0]
            func lookup(_ isBounded: Bool) -> String {
                "SELECT \(name) FROM \(sql.source) WHERE \(name) = ?1 \(isBounded ? "AND \(sql.isBeyond(2)) " : "")"
                    + "AND \(sql.isUnsettled) LIMIT 1"
            }
            parentLookup = (lookup(false), lookup(true))
        } else {
            let keys = moving.comparableKeys
            guard
                let ordinal = keys.firstIndex(where: { index in
                    index.terms.count == places.count && Set(index.terms.compactMap(\.column)) == Set(places)
                        && index.terms.allSatisfy { term in
                            term.column.map {
                                $0 >= 0
                                    && SQLIdentifier.equal(
                                        term.collation,
                                        parentTable.schema.columns[$0].collation
                                    )
                            } ?? false
                        }
                })
            else { return nil }
            let order = keys[ordinal].terms.compactMap { term in places.firstIndex { $0 == term.column } }
            parentIndex = (ordinal, order)
            parentLookup = (moving.keyLookups.unbounded[ordinal], moving.keyLookups.bounded[ordinal])
        }
        let row = sql.key.equals(sql.key.source, sql.key.parameters(from: 1))
        let children = places.indices.map { position in
            "midstream_child.\(childTable.quoted(columns[position])) = (SELECT \(sql.columns[places[position]].value) "
                + "FROM \(sql.source) WHERE \(row)) COLLATE \(collations[position])"
        }
        childInTarget =
            "SELECT 1 FROM \(childTable.name) AS midstream_child WHERE \(children.joined(separator: " AND ")) LIMIT 1"
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

    /// Whether there are pending children of a row that is about to come, or to get its key.
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
