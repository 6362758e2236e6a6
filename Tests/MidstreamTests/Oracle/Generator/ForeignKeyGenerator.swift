/// Adds random foreign keys to tables: every action, immediate and deferred, of one column and of several, to the table
/// itself and to others.
struct ForeignKeyGenerator {
    let dice: Dice

    private static let actions = ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"]

    func add(to tables: inout [TablePlan]) {
        for _ in 0..<dice.between(1, 3) {
            let child = dice.below(tables.count)
            let parent = dice.percent(30) ? child : dice.below(tables.count)
            if let text = foreignKey(of: tables[child], to: tables[parent]) { tables[child].foreignKeys.append(text) }
        }
    }

    private func foreignKey(of child: TablePlan, to parent: TablePlan) -> String? {
        var keys = parent.uniqueKeys
        if let key = parent.rowIDColumn { keys += [[key], [key]] }
        guard let key = keys.isEmpty ? nil : dice.pick(keys) else { return nil }
        let columns = dice.shuffled(child.columns.map(\.name).filter { $0 != child.rowIDColumn || dice.percent(15) })
        guard columns.count >= key.count else { return nil }
        let list = columns.prefix(key.count).map(quoted).joined(separator: ", ")
        // Now and then a table that there is not, and a key that is none: then SQLite refuses writes.
        let name = dice.percent(2) ? "nowhere" : parent.name
        let isPrimary = key == parent.rowIDColumn.map { [$0] } && dice.percent(30)
        var text = "FOREIGN KEY (\(list)) REFERENCES \(quoted(name))"
        if !isPrimary { text += "(\(key.map(quoted).joined(separator: ", ")))" }
        if dice.percent(70) { text += " ON DELETE \(dice.pick(Self.actions))" }
        if dice.percent(60) { text += " ON UPDATE \(dice.pick(Self.actions))" }
        if dice.percent(30) { text += " DEFERRABLE INITIALLY DEFERRED" }
        return text
    }
}
