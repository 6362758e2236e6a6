import SQLiteConnection
import SQLiteFeatures

/// Random statements that write a logical table.
struct LifeStatements {
    private let table: LifeTable
    private let oracle: Connection
    private let dice: Dice

    private var name: String { table.place.table }
    private var shape: LifeShape { table.shape }

    init(_ table: LifeTable, _ oracle: Connection, _ dice: Dice) {
        self.table = table
        self.oracle = oracle
        self.dice = dice
    }

    func random() -> String {
        switch dice.below(9) {
        case 0: insert("")
        case 1: insert("OR REPLACE")
        case 2: insert("OR IGNORE")
        case 3: insertWithoutKey()
        case 4: "DELETE FROM \(name) WHERE \(condition())"
        case 5: upsert()
        case 6: "UPDATE \(dice.pick(["", "", "OR IGNORE", "OR REPLACE"])) \(name) SET \(assignment()) WHERE \(one())"
        case 7: "UPDATE \(name) SET id = \(id()) WHERE \(one())"
        default: "UPDATE \(name) SET \(plainAssignment()) WHERE \(condition())"
        }
    }

    /// A statement that a program without Midstream might write.
    ///
    /// - Parameter known: Whether the plain table has this table's name and shape.
    func plainWrite(known: Bool) -> String {
        if known { return dice.percent(50) ? insert("") : "UPDATE \(name) SET \(assignment()) WHERE \(one())" }
        return "INSERT INTO \(name)(\(shape.stored.joined(separator: ", "))) VALUES "
            + "(\((["\(shape.key.hasText ? "'new'" : "99999")", "1"] + shape.columns.map { _ in "NULL" }).joined(separator: ", ")))"
    }

    func insert(_ conflict: String) -> String {
        "INSERT \(conflict) INTO \(name)(\(shape.stored.joined(separator: ", "))) VALUES "
            + "(\((["\(id())", "\(dice.below(9))"] + shape.columns.map { value($0) }).joined(separator: ", ")))"
    }

    private func insertWithoutKey() -> String {
        guard shape.key.isChosenBySQLite, table.knowsSequence || shape.key != .autoIncrement else {
            return insert("OR IGNORE")
        }
        let names = ["k"] + shape.columns.map(\.quoted)
        return "INSERT INTO \(name)(\(names.joined(separator: ", "))) VALUES "
            + "(\((["\(dice.below(9))"] + shape.columns.map { value($0) }).joined(separator: ", ")))"
    }

    private func upsert() -> String {
        guard SQLiteFeature.upsert.isAvailable, shape.key != .implicit else { return insert("OR REPLACE") }
        let key = shape.key == .pair ? "id, k" : "id"
        return insert("") + " ON CONFLICT(\(key)) DO UPDATE SET \(plainAssignment())"
    }

    // MARK: Parts

    private func assignment() -> String {
        let column = dice.pick(shape.columns)
        return "\(column.quoted) = \(value(column))"
    }

    private func plainAssignment() -> String {
        guard let column = shape.columns.filter({ !$0.isUnique }).randomElement(dice) else { return "k = k" }
        return "\(column.quoted) = \(dice.percent(70) ? value(column) : "\(column.quoted) || 'x'")"
    }

    private func condition() -> String {
        switch dice.below(5) {
        case 0:
            let column = dice.pick(shape.columns)
            return "\(column.quoted) = \(value(column))"
        case 1: return "k = \(dice.below(9))"
        case 2: return "id > \(id()) AND k > 6"
        default: return one()
        }
    }

    private func one() -> String {
        shape.key == .pair ? "id = \(id()) AND k = \(dice.below(9))" : "id = \(id())"
    }

    /// The id of a row that is there, or a new one.
    private func id() -> String {
        if dice.percent(60),
            let found = try? oracle.fetchAll("SELECT DISTINCT quote(id) FROM \(name) ORDER BY 1").map({
                try $0.get(0, as: String.self)
            }),
            !found.isEmpty
        {
            return dice.pick(found)
        }
        let number = dice.percent(5) ? dice.pick([-3, 0, 100_000]) : dice.between(1, 120)
        return shape.key.hasText ? "'k\(number)'" : "\(number)"
    }

    private func value(_ column: LifeShape.Column) -> String {
        let number = dice.below(1000)
        // Values of unique columns seldom collide.
        if column.isUnique { return dice.percent(80) ? "\(number * 1000 + dice.below(1000))" : "NULL" }
        let largest =
            SQLiteFeature.largestIntegersInRealColumns.isAvailable ? "9223372036854775807" : "4611686018427387904"
        return dice.pick([
            "NULL", "\(number % 7)", "\(number).5", "'\(number)'", "'t\(number % 5)'", "'T\(number % 5) '", "''",
            "x'00ff'",
            "'ä''\"'", "-1e300", largest, "1.0", "' 5'", "zeroblob(\(number * 5))", "x''",
            "'a' || char(0) || 'b'",
        ])
    }
}

extension Array {
    fileprivate func randomElement(_ dice: Dice) -> Element? { isEmpty ? nil : dice.pick(self) }
}
