internal import SQLText
internal import SQLiteConnection

/// Promotes the rows at the other ends of foreign keys, on a connection that enforces them, before SQLite looks there.
///
/// SQLite looks in `main` alone. The tables that keys connect with moving tables have TEMP triggers that call this type before a
/// row is written. It promotes the row's parents. If the row is a parent that is deleted or gets another key, it promotes the row's
/// pending children. Then SQLite finds in `main` what it would find in the whole tables, and its checks and actions are its own.
///
/// A promoted row must not break a key, and SQLite must not count it as the end of a violation. So the row's own parents are
/// promoted before it. Where that is impossible, the tables are drained, with enforcement switched off.
final class KeyActions {
    private let statements: InternalStatements
    private var connection: Connection { statements.connection }
    private var tables: [KeyTable] = []
    private var keys: [EnforcedKey] = []
    /// For each group of tables that keys connect: its moving tables, by the name of each of its tables in lower case.
    private(set) var groups: [String: Set<Int64>] = [:]
    private var places: [Int64: Int] = [:]
    /// The moving tables of all groups.
    private(set) var moving: Set<Int64> = []
    /// Whether a definition or a trigger says REPLACE. REPLACE deletes rows without firing a trigger for them.
    private(set) var definitionsReplace = false
    /// Whether the running statement may say REPLACE. For statements of other code, nobody calls ``begin(replaces:)``.
    var statementReplaces = false
    /// Whether the row that is about to come breaks a key: a parent of it is missing, or it leaves children without a parent.
    private var newRowBreaksKey = false
    /// The tables that must be drained, since one of their rows cannot be promoted by itself.
    private var undone: Set<Int64> = []
    private var isBringing = false
    /// Gives the error of a statement that cannot be run again, by a moving table that would have to be drained; `nil` for a
    /// statement that will be run again.
    var refusal: ((_ table: String) -> SQLiteError?)?

    init(statements: InternalStatements) {
        self.statements = statements
    }

    /// The error of a statement that is to be run again when the tables have been drained.
    private static let error = SQLiteError(
        code: .error,
        message: "rows that foreign keys connect with this one must move first"
    )

    func handles(_ table: String) -> Bool { groups[SQLIdentifier.lowercased(table)] != nil }

    /// The keys that refer to a table.
    func keys(to name: String) -> [EnforcedKey] {
        let place = tables.firstIndex { SQLIdentifier.equal($0.schema.name, name) }
        return keys.filter { $0.parent == place }
    }

    /// The columns of a table whose values an INSERT passes to the triggers before it stores them.
    func passedColumns(of name: String) -> Set<Int> {
        guard let place = tables.firstIndex(where: { SQLIdentifier.equal($0.schema.name, name) }) else { return [] }
        let ofKeys = keys.filter { $0.child == place }.flatMap(\.childColumns)
        return Set(ofKeys + MoveSQL.keyColumns(of: tables[place].schema))
    }

    /// A table that foreign keys connect with a moving one.
    func table(_ name: String) -> TableSchema? {
        tables.first { SQLIdentifier.equal($0.schema.name, name) }?.schema
    }

    /// The names of the triggers that are useless now, since no table of their group moves any more.
    func triggerNames(uselessWithout moving: Set<Int64>) -> [String] {
        tables.indices.filter { place in
            groups[SQLIdentifier.lowercased(tables[place].schema.name)]?.isDisjoint(with: moving) ?? true
        }.flatMap { place in OwnNames.keyTriggers.map { "\($0)\(place)" } }
    }

    /// The tables that must be drained because of the last error. The next call returns none.
    func takeUndone() -> Set<Int64> {
        defer { undone.removeAll() }
        return undone
    }

    // MARK: The tables

    /// Finds out which groups of tables can be written without draining.
    ///
    /// - Parameter moving: The moving tables, by their names in lower case.
    func read(_ reader: SchemaReader, _ ties: ForeignKeyTies, moving: [String: MovingTable]) throws {
        tables.removeAll()
        keys.removeAll()
        groups.removeAll()
        places.removeAll()
        self.moving.removeAll()
        for group in ties.groups {
            let ids = Set(group.compactMap { moving[$0]?.id })
            guard !ids.isEmpty, try add(group.sorted(), reader, moving) else { continue }
            for name in group { groups[name] = ids }
            self.moving.formUnion(ids)
        }
        for (place, table) in tables.enumerated() {
            guard let moving = table.moving else { continue }
            places[moving.id] = place
            moving.keyActions = self
        }
        try readDefinitions()
    }

    /// Finds out whether the definitions of the target say REPLACE.
    func readDefinitions() throws {
        definitionsReplace = try !keys.isEmpty && sayReplace()
    }

    private func sayReplace() throws -> Bool {
        try connection.fetchAll(
            "SELECT sql FROM main.sqlite_master WHERE type IN ('table', 'trigger') "
                + "UNION ALL SELECT sql FROM sqlite_temp_master WHERE type = 'trigger'"
        ).contains { row in
            let sql: String? = try row.get(0)
            return sql.map { SQLIdentifier.lowercased($0).contains("replace") } ?? false
        }
    }

    /// Notes that the open transaction has created a table or a trigger.
    func noteDefinition(_ outline: StatementOutline) {
        if outline.mentions(["replace"]) { definitionsReplace = true }
    }

    private func add(_ names: [String], _ reader: SchemaReader, _ moving: [String: MovingTable]) throws -> Bool {
        var numbers: [String: Int] = [:]
        var added: [KeyTable] = []
        for name in names {
            if let table = moving[name], !Self.isSimple(table) { return false }
            guard let schema = try moving[name]?.target ?? reader.table(name),
                let table = KeyTable(schema, moving[name])
            else { return false }
            numbers[name] = tables.count + added.count
            added.append(table)
        }
        func end(_ name: String) -> (Int, KeyTable)? {
            numbers[SQLIdentifier.lowercased(name)].map { ($0, added[$0 - tables.count]) }
        }
        var found: [EnforcedKey] = []
        for table in added {
            for key in try reader.foreignKeys(of: table.schema.name) {
                guard let child = end(key.child), let parent = end(key.parent) else { return false }
                guard let enforced = EnforcedKey(key, child: child, parent: parent) else {
                    if child.1.moving == nil, parent.1.moving == nil { continue }
                    return false
                }
                found.append(enforced)
            }
        }
        // All keys of the table must be known to find the rows that a new row could replace or collide with.
        for key in found where [key.child, key.parent].contains(where: { added[$0 - tables.count].moving != nil }) {
            for end in [key.child, key.parent] {
                let schema = added[end - tables.count].schema
                let isTold = schema.comparableKeys.allSatisfy { index in
                    index.terms.allSatisfy {
                        $0.column.map { $0 < 0 || !schema.columns[$0].isReplacementVolatile } ?? false
                    }
                }
                if schema.hasOtherKeys || !isTold { return false }
            }
        }
        tables += added
        keys += found
        return true
    }

    /// Whether a table's rows come from one source, and can be promoted.
    private static func isSimple(_ table: MovingTable) -> Bool {
        table.inner == nil && !table.isReturning && table.destination == nil && !table.hasOtherKeys
            && !table.sql.firesTriggers && !table.isHidden && table.untoldKeyColumns.isEmpty
    }

    // MARK: The triggers

    static let functions: [(String, Int)] = [("midstream_parents", -1), ("midstream_row", -1), ("midstream_new", -1)]

    /// The ends of keys that a row's triggers ask for.
    private enum Wanted: Int64 {
        case children = 1
        case parents = 2
        case both = 3

        var hasChildren: Bool { self != .parents }
        var hasParents: Bool { self != .children }
    }

    /// The CREATE statements of the TEMP triggers.
    var triggers: [String] { tables.indices.flatMap(triggers) }

    private func triggers(_ place: Int) -> [String] {
        let table = tables[place]
        let ofParents = keys.indices.filter { keys[$0].child == place && tables[keys[$0].parent].moving != nil }
        let hasChildren = keys.contains { $0.parent == place && tables[$0.child].moving != nil }
        // Only for a row that may have children, it matters whether the row itself breaks a key.
        let ofNew = keys.contains { $0.parent == place } ? keys.indices.filter { keys[$0].child == place } : ofParents
        let hasEnds = !ofParents.isEmpty || hasChildren
        guard hasEnds || !ofNew.isEmpty && table.moving != nil else { return [] }
        // If the function fails, SQLite must undo the whole statement, also within a transaction. It does so only if it expects an
        // error.
        let expected = "SELECT RAISE(ABORT, '') WHERE 0;"
        func parents(_ numbers: [Int]) -> String {
            numbers.map { number in
                let values = keys[number].childColumns.map { table.newValue($0) }
                return "SELECT midstream_parents(\(KeySQL.list(["\(number)"] + values)));"
            }.joined(separator: " ")
        }
        let replaced = "SELECT midstream_new(\(KeySQL.list(["\(place)"] + table.newKeys)));"
        let isOver = "SELECT midstream_new(\(place));"
        let old = table.rowNames.map { "OLD.\($0)" }
        func row(_ wanted: Wanted) -> String {
            "SELECT midstream_row(\(KeySQL.list(["\(place)", "\(wanted.rawValue)"] + old)));"
        }
        func trigger(_ kind: Int, _ event: String, _ when: String, _ body: [String]) -> String {
            "CREATE TEMP TRIGGER \(OwnNames.keyTriggers[kind])\(place) BEFORE \(event) ON \(table.name) \(when)"
                + "BEGIN \(body.filter { !$0.isEmpty }.joined(separator: " ")) \(expected) END"
        }
        var made = [trigger(0, "INSERT", "", [parents(ofNew), replaced])]
        if hasEnds { made.append(trigger(3, "DELETE", "", [row(hasChildren ? .both : .parents)])) }
        if !ofParents.isEmpty {
            let columns = Set(ofParents.flatMap { keys[$0].childColumns }).sorted()
            // With a list of columns, an assignment to `rowid` would not fire the trigger.
            let list =
                columns.contains { $0 == table.schema.rowIDColumn }
                ? "UPDATE" : "UPDATE OF \(KeySQL.list(columns.map(table.quoted)))"
            made.append(trigger(1, list, "", [row(.parents), parents(ofParents), isOver]))
        }
        let keyColumns = MoveSQL.keyColumns(of: table.schema).filter { $0 >= 0 }.map(table.quoted)
        let names = Set((table.schema.hasRowID ? table.rowNames : []) + keyColumns).sorted()
        // An index may distinguish values that are equal by the column's own collation.
        let changed = names.map { "NEW.\($0) COLLATE BINARY IS NOT OLD.\($0)" }.joined(separator: " OR ")
        if !names.isEmpty {
            // SQLite fires this trigger and the one before it in any order.
            let body = [hasChildren ? row(.children) : "", parents(ofNew), replaced]
            made.append(trigger(2, "UPDATE", "WHEN \(changed) ", body))
        }
        return made
    }

    // MARK: What the triggers call

    /// Notes that a statement begins to write.
    ///
    /// - Parameter replaces: Whether the statement may say REPLACE.
    func begin(replaces: Bool) {
        statementReplaces = replaces
        newRowBreaksKey = false
    }

    /// Forgets what is known of a row that is not written.
    func forgetRow() { newRowBreaksKey = false }

    /// Promotes the pending parent of a new row.
    ///
    /// - Parameter values: The foreign key's number, and the values of the key's columns.
    func bringParent(_ values: ValueReferences) throws {
        guard let key = keys[checked: values[0].int64], values.count == key.count + 1 else { throw Self.isStale }
        if (1..<values.count).contains(where: { values[$0].storageClass == .null }) { return }
        if let parent = tables[key.parent].moving, try parent.state().lowerBound != nil {
            if key.isOfRowID,
                (1..<values.count).contains(where: { values[$0].storageClass == .integer && values[$0].int64 == -1 })
            {
                // SQLite will choose the rowid later.
                try giveUp(key.parent)
            }
            let found = try key.pendingParent(in: parent) { try $1.bind(values[$0 + 1], at: $2) }
            if let found { return try parent.promote(found) }
        }
        guard keys.contains(where: { $0.parent == key.child }) else { return }
        if try !finds(key.parentInTarget, key.count, { try $1.bind(values[$0 + 1], at: $2) }) { newRowBreaksKey = true }
    }

    /// Promotes the rows at the other ends of a row of `main` that is about to be deleted, or to get another key.
    ///
    /// - Parameter values: The table's place, a raw value of `Wanted`, and the row's key.
    func bringEnds(_ values: ValueReferences) throws {
        guard values.count > 2, let table = tables[checked: values[0].int64],
            let wanted = Wanted(rawValue: values[1].int64),
            values.count == 2 + table.rowNames.count
        else { throw Self.isStale }
        // The row leaves its children without a parent.
        if wanted == .children { newRowBreaksKey = true }
        let row: RowKey =
            table.schema.hasRowID
            ? .rowID(values[2].int64) : .columns((2..<values.count).map { Self.exact(values[$0].value) })
        try bringEnds(of: row, Int(values[0].int64), wanted)
    }

    private static func exact(_ value: SQLiteValue) -> ExactValue {
        switch value {
        case .null: .null
        case .integer(let integer): .integer(integer)
        case .real(let double): .real(double.bitPattern)
        case .text(let text): .text(Array(text.utf8))
        case .blob(let bytes): .blob(bytes)
        }
    }

    private func bringEnds(of row: RowKey, _ place: Int, _ wanted: Wanted) throws {
        for key in keys where key.parent == place && wanted.hasChildren {
            guard let child = tables[key.child].moving, try child.state().lowerBound != nil else { continue }
            for found in try key.pendingChildren(of: row, in: child) {
                try child.promoteIfPending(found, child.state())
            }
        }
        for key in keys where key.child == place && wanted.hasParents {
            guard let parent = tables[key.parent].moving, try parent.state().lowerBound != nil else { continue }
            let found = try pendingParent(by: key, key.valuesInTarget, of: row, in: parent)
            if let found { try parent.promote(found) }
        }
    }

    /// Promotes the rows at the other ends of the rows that a new row may replace: SQLite fires no trigger for replaced rows.
    ///
    /// - Parameter values: The table's place, the new row's rowid or NULL, and the values of each comparable key's columns; the place
    ///   alone if the row keeps these values.
    func bringReplaced(_ values: ValueReferences) throws {
        guard let table = tables[checked: values[0].int64] else { throw Self.isStale }
        if values.count == 1 { return forgetRow() }
        let place = Int(values[0].int64)
        if definitionsReplace || statementReplaces { try bringReplaced(table, place, values) }
        try checkOrphans(of: place, values)
    }

    private func bringReplaced(_ table: KeyTable, _ place: Int, _ values: ValueReferences) throws {
        try table.moving?.resolveConflicts(values, from: 1)
        if table.schema.hasRowID, values[1].storageClass == .integer, values[1].int64 != -1 {
            try bringEnds(of: .rowID(values[1].int64), place, .both)
        }
        var position = 2
        for (index, lookup) in zip(table.schema.comparableKeys, table.conflictLookups) {
            let range = position..<(position + index.terms.count)
            position = range.upperBound
            guard range.upperBound <= values.count else { throw Self.isStale }
            if range.contains(where: { values[$0].storageClass == .null }) { continue }
            let statement = try statements.statement(lookup)
            defer { statement.reset() }
            for (offset, argument) in range.enumerated() { try statement.bind(values[argument], at: offset + 1) }
            guard try statement.step() else { continue }
            let row = RowReader(statement)
            let key: RowKey =
                table.schema.hasRowID
                ? .rowID(row.int64(at: 0)) : .columns(table.rowNames.indices.map { row.exactValue(at: $0) })
            statement.reset()
            try bringEnds(of: key, place, .both)
        }
    }

    /// Gives up if SQLite would count wrongly. While violations are outstanding, SQLite counts each child of a new row as the end
    /// of a violation, even a child that has had no parent from the start.
    ///
    /// The new row's own violation is one of these. Without triggers, SQLite would refuse the row before it counts anything.
    private func checkOrphans(of place: Int, _ values: ValueReferences) throws {
        let breaksKey = newRowBreaksKey
        newRowBreaksKey = false
        guard breaksKey || connection.hasDeferredViolations else { return }
        for key in keys where key.parent == place {
            func bind(_ place: Int, _ statement: Statement, _ parameter: Int) throws {
                try statement.bind(values[key.newParentPlaces[place] + 1], at: parameter)
            }
            // The children of a row that is replaced are not orphans.
            if try finds(key.parentInTarget, key.count, bind) { continue }
            if let child = tables[key.child].moving, try key.hasPendingChildren(in: child, bind) { try giveUp(place) }
            if breaksKey, try finds(key.orphanInTarget, key.count, bind) { try giveUp(place) }
        }
    }

    /// Whether a lookup with a key's values finds a row.
    private func finds(_ sql: String, _ count: Int, _ bind: (_ place: Int, Statement, _ parameter: Int) throws -> Void)
        throws -> Bool
    {
        let lookup = try statements.statement(sql)
        defer { lookup.reset() }
        for place in 0..<count { try bind(place, lookup, place + 1) }
        return try lookup.step()
    }

    private static let isStale = SQLiteError(code: .schema, message: "database schema has changed")

    // MARK: Promoting

    private struct Row: Hashable {
        var place: Int
        var key: RowKey
    }

    /// Promotes a pending row, after all pending rows that its keys refer to.
    ///
    /// - Complexity: O(n) in the pending rows to which the row refers, directly and through others.
    func promote(_ key: RowKey, of table: MovingTable) throws {
        guard let place = places[table.id], !isBringing, connection.isOn(.foreignKeys) else {
            return try table.promoteAlone(key)
        }
        isBringing = true
        defer { isBringing = false }
        var path = [(row: Row(place: place, key: table.key.folded(key)), key: key, next: keys.startIndex)]
        var onPath: Set = [path[0].row]
        while let (row, key, next) = path.last {
            guard let moving = tables[row.place].moving else { break }
            if let (found, place) = try nextParent(of: key, row.place, from: next, &path[path.count - 1].next),
                let parent = tables[place].moving
            {
                let row = Row(place: place, key: parent.key.folded(found))
                if row == path[path.count - 1].row { continue }
                // The rows on the path form a circle: each needs another one first.
                guard onPath.insert(row).inserted else { try giveUp(place) }
                path.append((row, found, keys.startIndex))
                continue
            }
            try checkEnds(of: key, row.place, moving)
            if try path.count == 1 || moving.isPending(key) { try moving.promoteAlone(key) }
            onPath.remove(row)
            path.removeLast()
        }
    }

    /// The next pending parent of a pending row, and the place of the parent's table.
    private func nextParent(of key: RowKey, _ place: Int, from first: Int, _ next: inout Int) throws -> (RowKey, Int)? {
        for number in first..<keys.endIndex where keys[number].child == place {
            next = number + 1
            guard let parent = tables[keys[number].parent].moving else { continue }
            if let found = try pendingParent(by: keys[number], keys[number].valuesInSource, of: key, in: parent) {
                return (found, keys[number].parent)
            }
        }
        next = keys.endIndex
        return nil
    }

    private func pendingParent(by key: EnforcedKey, _ sql: String, of row: RowKey, in parent: MovingTable) throws
        -> RowKey?
    {
        guard try parent.state().lowerBound != nil else { return nil }
        return try withValues(of: key, sql, row) { values in
            try key.pendingParent(in: parent) { try $1.bind(column: $0, of: values, at: $2) }
        } ?? nil
    }

    /// Runs `body` with a statement that has the values of a row's foreign key. `nil` if one of the values is NULL, or there is no
    /// such row.
    private func withValues<Result>(
        of key: EnforcedKey,
        _ sql: String,
        _ row: RowKey,
        _ body: (Statement) throws -> Result
    )
        throws -> Result?
    {
        // A caller may be using the statement of this text; then another one is prepared.
        let values = try statements.statement(sql)
        defer { values.reset() }
        try values.bind(row, at: 1)
        guard try values.step(), !(0..<key.count).contains(where: { values.isNull(at: $0) }) else { return nil }
        return try body(values)
    }

    /// Checks that SQLite counts neither a violation nor the end of one when the row comes. Gives up otherwise. The row's parents
    /// have been promoted.
    private func checkEnds(of key: RowKey, _ place: Int, _ moving: MovingTable) throws {
        for enforced in keys where enforced.child == place {
            let isThere = try withValues(of: enforced, enforced.valuesInSource, key) { values in
                try finds(enforced.parentInTarget, enforced.count) { try $1.bind(column: $0, of: values, at: $2) }
            }
            if isThere == false, try !isItsOwnParent(key, enforced) { try giveUp(place) }
        }
        guard connection.hasDeferredViolations else { return }
        for enforced in keys where enforced.parent == place {
            let child = try statements.statement(enforced.childInTarget)
            defer { child.reset() }
            try child.bind(key, at: 1)
            if try child.step() { try giveUp(place) }
        }
    }

    private func isItsOwnParent(_ key: RowKey, _ enforced: EnforcedKey) throws -> Bool {
        guard enforced.parent == enforced.child else { return false }
        let lookup = try statements.statement(enforced.isOfItself)
        defer { lookup.reset() }
        try lookup.bind(key, at: 1)
        return try lookup.step()
    }

    private func giveUp(_ place: Int) throws -> Never {
        let group = groups[SQLIdentifier.lowercased(tables[place].schema.name)] ?? []
        let moving = tables.lazy.compactMap(\.moving).first { group.contains($0.id) }
        if let moving, let refusal = refusal?(moving.name) { throw refusal }
        undone = group
        throw Self.error
    }
}

extension Array {
    /// The element at an index; `nil` if there is none.
    fileprivate subscript(checked index: Int64) -> Element? {
        index >= 0 && index < Int64(count) ? self[Int(index)] : nil
    }
}
