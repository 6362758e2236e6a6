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

    /// The schema of the target and of the oracle.
    var targetSchema: [String] {
        [creation(named: name, columns: columns, foreignKeys: foreignKeys)]
            + indexCreations(on: name, prefix: "") { _ in true }
    }

    /// The schema of the source.
    var sourceSchema: [String] { sourceNames.flatMap(sourceSchema) }

    var sourceNames: [String] { [sourceName, secondSourceName].compactMap(\.self) }

    /// The source that has a row.
    func source(of row: RowPlan) -> String? {
        row.rowID % 2 == 0 ? secondSourceName ?? sourceName : sourceName
    }

    private func sourceSchema(_ sourceName: String) -> [String] {
        let made = columns.filter { $0.origin != nil }.map { quoted($0.name) }
        func isLeftOut(_ text: String) -> Bool { made.contains { text.contains($0) } }
        var source = self
        source.columns = columns.compactMap { column in
            guard let origin = column.origin else { return column }
            guard case .column(let name, let type) = origin else { return nil }
            return ColumnPlan(name: name, type: type, constraints: "")
        }
        if leavesColumn {
            source.columns.append(ColumnPlan(name: "left behind", type: "TEXT", constraints: "DEFAULT 'l'"))
        }
        if isPermuted { source.columns.reverse() }
        source.constraints.removeAll(where: isLeftOut)
        return [source.creation(named: sourceName, columns: source.columns)]
            + indexCreations(on: sourceName, prefix: "src \(sourceName) ") {
                ($0.isInSource || $0.isUnique) && !isLeftOut($0.terms)
            }
    }

    var isMapped: Bool { leavesColumn || columns.contains { $0.origin != nil } }

    /// The names by which the source has a row's values, as far as it has them, and the values' positions.
    var sourceInsertedColumns: [(name: String, position: Int)] {
        insertedColumns.enumerated().compactMap { position, name in
            guard let column = columns.first(where: { quoted($0.name) == name }) else { return (name, position) }
            switch column.origin {
            case nil: return (name, position)
            case .column(let name, _): return (quoted(name), position)
            default: return nil
            }
        }
    }

    /// The expressions, on the source's columns, for the columns in which a row is given.
    var mappedColumns: [String] {
        insertedColumns.map { name in
            guard let column = columns.first(where: { quoted($0.name) == name }) else { return name }
            switch column.origin {
            case nil: return name
            case .column(let name, _): return quoted(name)
            case .expression(let text): return "(\(text)\n)"
            case .value(let value): return literal(value)
            case .absent: return column.defaultValue ?? "NULL"
            }
        }
    }

    /// The columns in which a row is given, the rowid first.
    var insertedColumns: [String] {
        let names = columns.filter { !$0.isGenerated }.map { quoted($0.name) }
        return rowIDColumn == nil && primaryKey.isEmpty ? [rowIDName] + names : names
    }

    /// The columns that tell rows apart.
    var key: [String] { primaryKey.isEmpty ? [rowIDName] : primaryKey.map(quoted) }

    func insertedValues(_ row: RowPlan) -> [SQLiteValue] {
        let given = zip(columns, row.values).filter { !$0.0.isGenerated }
        guard let rowIDColumn else { return (primaryKey.isEmpty ? [.integer(row.rowID)] : []) + given.map(\.1) }
        return given.map { $0.name == rowIDColumn ? .integer(row.rowID) : $1 }
    }

    /// A query of the whole table, in the order of the key.
    var contents: String {
        let list = key.joined(separator: ", ")
        return "SELECT \(list), * FROM \(quoted(name)) ORDER BY \(list)"
    }
}

extension OracleCase {
    /// The names of the indexes along which a scan of the union table goes if SQLite does so. Both sides have these
    /// indexes, and their terms compare as the columns do.
    var followedIndexes: Set<String> {
        Set(
            tables.filter { !$0.isMapped && $0.condition == nil && $0.name != chain?.to }.flatMap(\.indexes).filter {
                index in
                (index.isInSource || index.isUnique)
                    && !["WHERE", "COLLATE", "lower(", "||"].contains(where: index.terms.contains)
            }.map(\.name)
        )
    }
}

extension ColumnPlan {
    /// The expression after DEFAULT.
    var defaultValue: String? {
        constraints.split(separator: "DEFAULT ", maxSplits: 1, omittingEmptySubsequences: false).dropFirst().first.map(
            String.init
        )
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
        case .moveOn: return ".moveOn"
        case .moveFile: return ".moveFile"
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
            for column in table.columns {
                if let origin = column.origin { lines.append("-- column \(column.name): \(origin)") }
            }
            for row in table.rows {
                let isInSource = !row.isInTarget && table.sourceName != nil
                let values = table.insertedValues(row).map(literal)
                let columns =
                    isInSource
                    ? table.sourceInsertedColumns : table.insertedColumns.enumerated().map { ($0.element, $0.offset) }
                let name = isInSource ? table.source(of: row) ?? "" : table.name
                lines.append(
                    "\(isInSource ? "/* source */ " : "")INSERT INTO \(quoted(name))"
                        + "(\(columns.map(\.name).joined(separator: ", "))) "
                        + "VALUES (\(columns.map { values[$0.position] }.joined(separator: ", ")));"
                )
            }
        }
        lines += views.map { $0.sql + ";" }
        lines += triggers.map { $0.sql + ";" }
        if let chain { lines.append("-- .moveOn: \(chain.from) moves on to \(chain.to)") }
        if enforcesForeignKeys { lines.append("PRAGMA foreign_keys = ON;") }
        lines += settings.map { $0 + ";" }
        lines += operations.map(\.description)
        return lines.joined(separator: "\n")
    }
}
