import SQLiteConnection

/// Adds random foreign keys to tables: every action, immediate and deferred, of one column and of several, to the table
/// itself and to others.
struct ForeignKeyGenerator {
    let dice: Dice

    private static let actions = ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"]

    func add(to tables: inout [TablePlan]) {
        for _ in 0..<dice.between(1, 3) {
            let child = dice.below(tables.count)
            let parent = dice.percent(30) ? child : dice.below(tables.count)
            guard let key = foreignKey(of: tables[child], to: tables[parent]) else { continue }
            tables[child].foreignKeys.append(key.text)
            // Most keys hold, so that rows are promoted together with the rows to which they refer. If keys do not
            // hold, tables are drained.
            if dice.percent(75) { satisfy(key.columns, key.parentColumns, of: &tables[child], tables[parent]) }
        }
    }

    /// Makes rows of the child refer to rows of the parent.
    private func satisfy(_ columns: [String], _ keys: [String], of child: inout TablePlan, _ parent: TablePlan) {
        let places = columns.compactMap { name in child.columns.firstIndex { $0.name == name } }
        let parentPlaces = keys.compactMap { name in parent.columns.firstIndex { $0.name == name } }
        guard places.count == columns.count, parentPlaces.count == keys.count, !parent.rows.isEmpty else { return }
        for row in child.rows.indices {
            let other = dice.pick(parent.rows)
            let isNull = dice.percent(15)
            for (place, parentPlace) in zip(places, parentPlaces) {
                let isRowID = parent.columns[parentPlace].name == parent.rowIDColumn
                child.rows[row].values[place] =
                    isNull ? .null : isRowID ? .integer(other.rowID) : other.values[parentPlace]
            }
        }
    }

    private func foreignKey(of child: TablePlan, to parent: TablePlan)
        -> (text: String, columns: [String], parentColumns: [String])?
    {
        var keys = parent.uniqueKeys
        if let key = parent.rowIDColumn { keys += [[key], [key]] }
        guard let key = keys.isEmpty ? nil : dice.pick(keys) else { return nil }
        let columns = dice.shuffled(child.columns.map(\.name).filter { $0 != child.rowIDColumn || dice.percent(15) })
        guard columns.count >= key.count else { return nil }
        let list = columns.prefix(key.count).map(quoted).joined(separator: ", ")
        // Now and then the parent is a table that does not exist, or the parent's columns are no key: SQLite refuses
        // writes then.
        let name = dice.percent(2) ? "nowhere" : parent.name
        let isPrimary = key == parent.rowIDColumn.map { [$0] } && dice.percent(30)
        var text = "FOREIGN KEY (\(list)) REFERENCES \(quoted(name))"
        if !isPrimary { text += "(\(key.map(quoted).joined(separator: ", ")))" }
        if dice.percent(70) { text += " ON DELETE \(dice.pick(Self.actions))" }
        if dice.percent(60) { text += " ON UPDATE \(dice.pick(Self.actions))" }
        if dice.percent(30) { text += " DEFERRABLE INITIALLY DEFERRED" }
        return (text, Array(columns.prefix(key.count)), key)
    }
}
