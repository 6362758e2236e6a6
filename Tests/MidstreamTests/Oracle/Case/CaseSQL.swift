import SQLiteConnection

// The SQL text of a case's parts.

func quoted(_ name: String) -> String {
    "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
}

func literal(_ value: SQLiteValue) -> String {
    switch value {
    case .null: return "NULL"
    case .integer(let integer): return integer < 0 ? "(\(integer))" : "\(integer)"
    case .real(let double): return double < 0 ? "(\(double))" : "\(double)"
    case .text(let text):
        return "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
    case .blob(let bytes):
        let digits = Array("0123456789abcdef")
        return "x'" + bytes.map { String([digits[Int($0 >> 4)], digits[Int($0 & 15)]]) }.joined() + "'"
    }
}

extension TablePlan {
    func creation(named name: String, columns: [ColumnPlan], foreignKeys: [String] = []) -> String {
        let definitions =
            columns.map { "\(quoted($0.name)) \($0.type) \($0.constraints)" } + constraints + foreignKeys
        let options = (isStrict ? ["STRICT"] : []) + (primaryKey.isEmpty ? [] : ["WITHOUT ROWID"])
        return "CREATE TABLE \(quoted(name))(\(definitions.joined(separator: ", "))) "
            + options.joined(separator: ", ")
    }

    func indexCreations(on name: String, prefix: String, _ isIncluded: (IndexPlan) -> Bool) -> [String] {
        indexes.filter(isIncluded).map { index in
            "CREATE \(index.isUnique ? "UNIQUE " : "")INDEX \(quoted(prefix + index.name)) ON \(quoted(name))\(index.terms)"
        }
    }

    /// What the target and the oracle have.
    var targetSchema: [String] {
        [creation(named: name, columns: columns, foreignKeys: foreignKeys)]
            + indexCreations(on: name, prefix: "") { _ in true }
    }

    /// What the source has.
    var sourceSchema: [String] {
        guard let sourceName else { return [] }
        return [creation(named: sourceName, columns: isPermuted ? columns.reversed() : columns)]
            + indexCreations(on: sourceName, prefix: "src ") { $0.isInSource || $0.isUnique }
    }

    /// The columns that a row is given in, the rowid first.
    var insertedColumns: [String] {
        let names = columns.filter { !$0.isGenerated }.map { quoted($0.name) }
        return rowIDColumn == nil && primaryKey.isEmpty ? [rowIDName] + names : names
    }

    /// What tells rows apart.
    var key: [String] { primaryKey.isEmpty ? [rowIDName] : primaryKey.map(quoted) }

    func insertedValues(_ row: RowPlan) -> [SQLiteValue] {
        let given = zip(columns, row.values).filter { !$0.0.isGenerated }
        guard let rowIDColumn else { return (primaryKey.isEmpty ? [.integer(row.rowID)] : []) + given.map(\.1) }
        return given.map { $0.name == rowIDColumn ? .integer(row.rowID) : $1 }
    }

    /// All of the table, in the order of the key.
    var contents: String {
        let list = key.joined(separator: ", ")
        return "SELECT \(list), * FROM \(quoted(name)) ORDER BY \(list)"
    }
}

extension Command: CustomStringConvertible {
    var description: String {
        if values.isEmpty { return sql }
        let shown = values.enumerated().map { (names.isEmpty ? "" : names[$0] + " = ") + literal($1) }
        return sql + "  -- " + shown.joined(separator: ", ")
    }
}

extension Operation: CustomStringConvertible {
    var description: String {
        switch self {
        case .run(let command): return "\(command);"
        case .read(let command): return ".read \(command)"
        case .other(let command): return ".other \(command)"
        case .stranger(let command): return ".stranger \(command)"
        case .block(let commands, let commits):
            return ".block\n" + commands.map { "    \($0)\n" }.joined() + (commits ? ".commit" : ".rollback")
        case .loop(let select, let writes, let limit):
            return ".loop \(limit) \(select)\n" + writes.map { "    \($0)\n" }.joined() + ".end"
        case .step(let rows): return rows.map { ".step \($0)" } ?? ".step"
        case .reopen: return ".reopen"
        }
    }
}

extension OracleCase: CustomStringConvertible {
    var description: String {
        var lines = [isSameFile ? "-- the source is the target's own file" : "-- the source is another file"]
        if targetKey + sourceKey > 0 { lines.append("-- keys \(targetKey) and \(sourceKey) of TestKeys") }
        for table in tables {
            lines += table.targetSchema.map { $0 + ";" }
            lines += table.sourceSchema.map { "/* source */ " + $0 + ";" }
            if let condition = table.condition { lines.append("-- condition: \(condition)") }
            for row in table.rows {
                let place = row.isInTarget || table.sourceName == nil ? "" : "/* source */ "
                let values = table.insertedValues(row).map(literal).joined(separator: ", ")
                lines.append(
                    "\(place)INSERT INTO \(quoted(table.name))(\(table.insertedColumns.joined(separator: ", "))) VALUES (\(values));"
                )
            }
        }
        lines += views.map { $0.sql + ";" }
        lines += triggers.map { $0.sql + ";" }
        if enforcesForeignKeys { lines.append("PRAGMA foreign_keys = ON;") }
        lines += settings.map { $0 + ";" }
        lines += operations.map(\.description)
        return lines.joined(separator: "\n")
    }
}
