import SQLiteFeatures

/// A random schema of one table `t`. Its columns are some of a few, so any two schemas have columns in common. Rows
/// with numbers from 1 on in all columns fit every schema.
struct RandomSchema: CustomStringConvertible {
    var columns: [String] = []
    var createTable = ""
    var indexes: [String] = []

    var statements: [String] { [createTable] + indexes }
    var description: String { statements.joined(separator: "; ") }

    init(_ dice: inout some RandomNumberGenerator) {
        func one<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &dice)! }
        func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &dice) < percent }
        // These columns may be the table's key.
        let keys = ["k1", "k2"]
        let others = ["a", "b", "c", "d"].filter { _ in chance(65) }.shuffled(using: &dice)
        let kind = one(["rowid", "alias", "alias", "auto", "text", "pair"])
        let isWithoutRowID = ["text", "pair"].contains(kind) && chance(60)
        let isStrict = SQLiteFeature.strict.isAvailable && chance(15)
        func type(_ name: String) -> String {
            isStrict ? one(["INTEGER", "ANY"]) : one(["INTEGER", "TEXT", "REAL", "", "VARCHAR(9)", "NUMERIC"])
        }
        var definitions: [String] = []
        for name in keys {
            if name == "k1", kind == "alias" || kind == "auto" {
                definitions.append("k1 INTEGER PRIMARY KEY" + (kind == "auto" ? " AUTOINCREMENT" : ""))
            } else if name == "k1", kind == "text" {
                definitions.append("k1 \(isStrict ? "TEXT" : "TEXT") PRIMARY KEY NOT NULL")
            } else {
                definitions.append("\(name) \(isStrict ? "INTEGER" : one(["INTEGER", "TEXT"])) NOT NULL")
            }
        }
        for name in others {
            var definition = "\(name) \(type(name))"
            if chance(30) {
                definition += " NOT NULL DEFAULT \(one(["7", "'8'", "-1"]))"
            } else if chance(30) {
                definition += " DEFAULT \(one(["3", "NULL", "(1 + 1)"]))"
            }
            if isStrict { definition = definition.replacing("'8'", with: "8") }
            if chance(20) { definition += " COLLATE \(one(["NOCASE", "RTRIM"]))" }
            if chance(20) { definition += " CHECK (\(name) IS NULL OR \(name) <> 'no')" }
            if chance(10) { definition += " REFERENCES p(id)" }
            definitions.append(definition)
        }
        columns = keys + others
        if SQLiteFeature.generatedColumns.isAvailable, chance(20) {
            definitions.append("g AS (k1 || '/' || k2)\(chance(40) ? " STORED" : "")")
            if isStrict {
                definitions[definitions.count - 1] = definitions[definitions.count - 1].replacing(
                    "g AS",
                    with: "g ANY AS"
                )
            }
        }
        if kind == "pair" { definitions.append("PRIMARY KEY (k1, k2\(chance(30) ? " DESC" : ""))") }
        if chance(25) { definitions.append("UNIQUE (k2)") }
        let options = (isWithoutRowID ? ["WITHOUT ROWID"] : []) + (isStrict ? ["STRICT"] : [])
        createTable = "CREATE TABLE t(\(definitions.joined(separator: ", "))) \(options.joined(separator: ", "))"
        for name in columns where chance(25) {
            indexes.append("CREATE \(name == "k2" && chance(50) ? "UNIQUE " : "")INDEX i_\(name) ON t(\(name))")
        }
    }

    /// The schema with one more column, and perhaps an index: a change that ALTER TABLE may do by itself.
    func changed(_ dice: inout some RandomNumberGenerator) -> RandomSchema {
        let name = "n\(columns.count)"
        let ends = [" DEFAULT 5", " NOT NULL DEFAULT 5", "", " DEFAULT (2 + 3)", " UNIQUE", " CHECK (\(name) <> 0)"]
        let definition = "\(name) INTEGER\(ends.randomElement(using: &dice) ?? "")"
        var changed = self
        changed.columns.append(name)
        changed.createTable = createTable.replacing("CREATE TABLE t(", with: "CREATE TABLE t(\(definition), ")
        if Bool.random(using: &dice) { changed.indexes.append("CREATE INDEX i_\(name) ON t(\(name))") }
        return changed
    }

    /// Rows for the schema.
    func rows(_ count: Int) -> String {
        "INSERT INTO t(\(columns.joined(separator: ", "))) WITH RECURSIVE n(i) AS "
            + "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) "
            + "SELECT \(columns.map { $0 == "k2" ? "\(count) * 2 - i" : "i" }.joined(separator: ", ")) FROM n"
    }
}
