import Midstream
import SQLiteFeatures

/// The shape of a logical table: its key, its columns and its indexes, without its name.
struct LifeShape: Sendable {
    /// The kinds of keys, by which rows are told apart.
    enum Key: CaseIterable, Sendable {
        case alias, autoIncrement, implicit, number, text, keyedText, pair

        var hasText: Bool { self == .text || self == .keyedText }
        var hasRowID: Bool { self != .keyedText && self != .pair }
        /// Whether the rowid is a column.
        var isRowID: Bool { self == .alias || self == .autoIncrement }
        /// Whether a row may be inserted without its key.
        var isChosenBySQLite: Bool { self == .alias || self == .autoIncrement || self == .implicit }
        /// The columns by which rows are ordered.
        var order: String {
            switch self {
            case .implicit: "rowid"
            case .pair: "id, k"
            default: "id"
            }
        }

        fileprivate var definition: String {
            switch self {
            case .alias: "id INTEGER PRIMARY KEY"
            case .autoIncrement: "id INTEGER PRIMARY KEY AUTOINCREMENT"
            case .implicit: "id INTEGER"
            case .number: "id INT UNIQUE"
            case .text: "id TEXT PRIMARY KEY"
            case .keyedText: "id TEXT PRIMARY KEY NOT NULL"
            case .pair: "id INTEGER NOT NULL"
            }
        }

        /// A condition for the rows whose keys tables of other kinds can have as well; `nil` if a table of this kind
        /// can have no other rows.
        var ownCondition: String? {
            switch self {
            case .number: "typeof(id) = 'integer'"
            case .text: "id IS NOT NULL"
            default: nil
            }
        }

        /// Keys of rows that do not meet this condition.
        func strangers(_ dice: Dice) -> [String] {
            guard self == .number else { return (0..<dice.between(1, 60)).map { _ in "NULL" } }
            return (0..<dice.between(1, 60)).map { number in
                dice.pick([
                    "NULL", "'z\(number)'", "\(number).5", "-\(number).5", "x'00\(number + 10)'",
                    "9e18 * \(number + 2)",
                ])
            }
        }
    }

    struct Column: Sendable {
        var name: String
        var type: String
        /// What follows the type in the column's definition.
        var rest = ""
        var isUnique = false
        /// The expression of a CHECK: rows for which it is false are refused.
        var check: String?

        var definition: String {
            "\(quoted) \(type)\(rest)\(isUnique ? " UNIQUE" : "")\(check.map { " CHECK (\($0))" } ?? "")"
        }
        var quoted: String { "\"\(name)\"" }
    }

    struct Index: Sendable {
        var columns: [String]
        var isUnique = false
    }

    var key: Key
    /// The columns besides `id` and `k`.
    var columns: [Column]
    var indexes: [Index] = []
    /// A generated column, made of others.
    var generated: String?

    // MARK: SQL

    func createTable(_ name: String) -> String {
        var parts = [key.definition, "k INTEGER NOT NULL"] + columns.map(\.definition)
        if let generated { parts.append("g AS (\(generated))") }
        if key == .pair { parts.append("PRIMARY KEY (id, k DESC)") }
        return "CREATE TABLE \(name)(\(parts.joined(separator: ", ")))\(key.hasRowID ? "" : " WITHOUT ROWID")"
    }

    func createIndexes(_ name: String, number: inout Int) -> [String] {
        indexes.map { index in
            number += 1
            return
                "CREATE \(index.isUnique ? "UNIQUE " : "")INDEX i\(number) ON \(name)(\(index.columns.joined(separator: ", ")))"
        }
    }

    /// The columns that are stored.
    var stored: [String] { ["id", "k"] + columns.map(\.quoted) }

    /// A query of all values, with the rowid if it is known.
    func dump(_ name: String, rowIDs: Bool, where part: String? = nil) -> String {
        let all = stored + (generated == nil ? [] : ["g"]) + (key == .implicit && rowIDs ? ["rowid"] : [])
        return
            "SELECT \(all.joined(separator: ", ")) FROM \(name)\(part.map { " WHERE \($0)" } ?? "") ORDER BY \(key.order)"
    }

    /// The columns that have a CHECK. A NULL violates none of the CHECKs.
    var checked: [String] { columns.filter { $0.check != nil }.map(\.name) }

    /// A condition for the rows that a CHECK refuses.
    var refused: String? {
        let checks = columns.compactMap { $0.check.map { "NOT (\($0))" } }
        return checks.isEmpty ? nil : checks.joined(separator: " OR ")
    }

    // MARK: Random shapes

    private static let names = ["a", "b", "c", "d", "two words"]
    private static let types = ["TEXT", "INTEGER", "REAL", "", "NUMERIC", "BLOB", "VARCHAR(9)"]

    init(_ dice: Dice) {
        key = dice.pick(Key.allCases)
        columns = dice.some(Self.names).map { name in
            var column = Column(name: name, type: dice.pick(Self.types))
            if dice.percent(20) { column.rest = " DEFAULT \(dice.pick(["7", "'x'", "NULL", "-1.5"]))" }
            if dice.percent(20) { column.rest += " COLLATE \(dice.pick(["NOCASE", "RTRIM"]))" }
            column.isUnique = dice.percent(15)
            return column
        }
        for column in columns where dice.percent(30) {
            indexes.append(Index(columns: dice.percent(30) ? [column.quoted, "k"] : [column.quoted]))
        }
        if dice.percent(15) { indexes.append(Index(columns: ["k", "id"], isUnique: true)) }
        if SQLiteFeature.generatedColumns.isAvailable, dice.percent(20) {
            generated = dice.pick(["k + 1", "k || '/' || id", "id"])
        }
    }

    /// A shape that another version of the application might want. It comes with what its columns are made of, for
    /// columns that are not made of the column of the same name.
    ///
    /// - Parameters:
    ///   - wild: Whether all kinds of keys and constraints may come.
    ///   - drops: Whether columns may go.
    func changed(_ dice: Dice, wild: Bool, drops: Bool = true) -> LifeChange {
        var shape = self
        var made: [String: LifeChange.Origin] = [:]
        if dice.percent(wild ? 40 : 25) { shape.key = dice.pick(wild ? Key.allCases : key.easily) }
        if key == .implicit, shape.key == .alias || shape.key == .autoIncrement { made["id"] = .rowID }
        for _ in 0..<dice.between(0, 3) {
            let index = dice.below(shape.columns.count)
            switch dice.below(7) {
            case 0 where drops && shape.columns.count > 1:
                let gone = shape.columns.remove(at: index)
                shape.forget(gone.quoted)
                made[gone.name] = nil
            case 1:
                shape.columns[index].type = dice.pick(Self.types)
            case 2:
                let name = dice.pick(Self.names)
                guard !shape.columns.contains(where: { $0.name == name }), !columns.contains(where: { $0.name == name })
                else { continue }
                shape.columns.append(Column(name: name, type: dice.pick(Self.types), rest: " DEFAULT 5"))
                made[name] = dice.percent(50) ? .defaultValue("5") : .expression("k || 'n'")
            case 3:
                let name = dice.pick(Self.names)
                let former = shape.columns[index]
                guard !shape.columns.contains(where: { $0.name == name }),
                    !columns.contains(where: { $0.name == name }),
                    made[former.name] == nil
                else { continue }
                shape.columns[index].name = name
                shape.forget(former.quoted)
                shape.columns[index].check = nil
                made[name] = .column(former.name)
            case 4 where made[shape.columns[index].name] == nil:
                let column = shape.columns[index]
                made[column.name] = .expression("coalesce(\(column.quoted), k)")
            case 5 where wild || dice.percent(30):
                let column = shape.columns[index]
                shape.columns[index].check =
                    "\(column.quoted) IS NULL OR length(\(column.quoted)) <> \(dice.between(1, 3))"
            case 6 where wild: shape.columns[index].isUnique.toggle()
            default: shape.columns[index].isUnique = false
            }
        }
        if dice.percent(30) { shape.columns = dice.shuffled(shape.columns) }
        if dice.percent(20) { shape.indexes = shape.indexes.filter { $0.isUnique || dice.percent(50) } }
        if dice.percent(20) { shape.indexes.append(Index(columns: [dice.pick(shape.columns).quoted])) }
        return LifeChange(shape: shape, made: made)
    }

    private mutating func forget(_ column: String) { indexes.removeAll { $0.columns.contains(column) } }
}

extension LifeShape.Key {
    /// The kinds of keys to which rows with this kind can move as they are.
    fileprivate var easily: [LifeShape.Key] {
        switch self {
        case .alias, .autoIncrement, .implicit: [.alias, .autoIncrement, .implicit]
        case .number: [.number, .alias, .autoIncrement]
        case .text, .keyedText: [.text, .keyedText]
        case .pair: [.pair]
        }
    }
}

/// Another shape of a logical table, and what the columns of that shape are made of.
struct LifeChange: Sendable {
    enum Origin: Sendable {
        case column(String), expression(String), defaultValue(String), rowID
    }

    var shape: LifeShape
    var made: [String: Origin] = [:]

    var mappings: [String: ColumnMapping] {
        made.mapValues { origin in
            switch origin {
            case .column(let name): .column(name)
            case .expression(let text): .expression(text)
            case .defaultValue: .defaultValue
            case .rowID: .column("rowid")
            }
        }
    }

    /// The statement by which SQLite alone copies the rows.
    func copy(from old: String, _ oldShape: LifeShape, to new: String, condition: String?) -> String {
        var columns = shape.stored
        var values = (["id", "k"] + shape.columns.map(\.name)).map { name in
            switch made[name] {
            case .column(let other): "\"\(other)\""
            case .expression(let text): text
            case .defaultValue(let text): text
            case .rowID: "rowid"
            case nil: "\"\(name)\""
            }
        }
        if shape.key == .implicit, [.implicit, .alias, .autoIncrement].contains(oldShape.key) {
            columns.append("rowid")
            values.append("rowid")
        }
        return
            "INSERT INTO \(new)(\(columns.joined(separator: ", "))) SELECT \(values.joined(separator: ", ")) FROM \(old)"
            + (condition.map { " WHERE \($0)" } ?? "")
    }
}
