internal import SQLText
internal import SQLiteConnection

/// Compares every row of two files. Nobody writes the files any more.
struct FinalComparison {
    private(set) var rows: Int64 = 0
    private(set) var differences: [String] = []

    init(_ first: String, _ second: String, tables: [String]) throws {
        let left = try Connection(path: first, options: OpenOptions(access: .readWrite))
        let right = try Connection(path: second, options: OpenOptions(access: .readWrite))
        defer {
            left.close()
            right.close()
        }
        for table in tables { try compare(table, left, right) }
        try compare("SELECT type, name, tbl_name FROM sqlite_master ORDER BY 1, 2", "the schema", left, right)
        let check: String? = try left.fetchValue("PRAGMA integrity_check")
        if check != "ok" { differences.append("the moved file's integrity check says: \(check ?? "nothing")") }
    }

    private mutating func compare(_ table: String, _ left: Connection, _ right: Connection) throws {
        try compare("SELECT rowid, * FROM \(SQLIdentifier.quoted(table)) ORDER BY rowid", "table \(table)", left, right)
    }

    private mutating func compare(_ sql: String, _ name: String, _ left: Connection, _ right: Connection) throws {
        let (a, b) = (try left.prepare(sql), try right.prepare(sql))
        while true {
            let (hasLeft, hasRight) = (try a.step(), try b.step())
            guard hasLeft, hasRight else {
                if hasLeft != hasRight { differences.append("\(name) has a different number of rows") }
                return
            }
            rows += 1
            if Row(copying: a) != Row(copying: b) {
                differences.append("\(name) differs in row \(a.int64(at: 0))")
                return
            }
        }
    }
}
