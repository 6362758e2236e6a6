import Midstream
import SQLiteConnection

/// What is wrong with Midstream, or looks so.
struct LifeProblem: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Some files whose tables move to and fro, and beside them a plain database with the rows of each logical table.
final class LifeWorld {
    static let fileCount = 3

    /// The folder of the oracle.
    let folder = TemporaryFolder()
    /// The folders in which the files are, or have been.
    var folders = [TemporaryFolder()]
    var state = LifeState()
    var oracle: Connection
    /// Whether steps build tables; otherwise steps move rows in batches.
    private var isBuilt = false
    /// The databases that are open, by the numbers of their files.
    var databases: [Int: Database] = [:]
    /// What has been done, in words.
    var log: [String] = []
    /// Which refusals occurred, and how often.
    var refusals: [String: Int] = [:]
    /// What was known when all files were last copied; `nil` if there is no copy.
    var backup: LifeState?
    var isVerbose = false
    /// Whether two databases of a file are open.
    var isOpenTwice = false
    /// The fault that is to strike next.
    var fault: LifeFault?
    /// How many faults there were, and how many of them struck.
    var faults = (begun: 0, struck: 0)
    /// A reader that reads all the time.
    var reader: LifeReader?
    /// The key with which each file is encrypted; `nil` for none.
    let keys: [EncryptionKey?]

    init(_ dice: Dice) throws {
        oracle = try Self.openOracle(folder)
        let encrypts = Connection.canEncrypt && dice.percent(40)
        keys = (0..<Self.fileCount).map { file in
            encrypts && dice.percent(70) ? TestKeys.cheap("key \(file)") { $0.pageSize = 1024 } : nil
        }
        for _ in 0..<dice.between(1, 3) { try createTable(dice) }
        isBuilt = dice.percent(50)
    }

    deinit {
        reader?.end()
        for database in databases.values { database.close() }
        oracle.close()
    }

    static func openOracle(_ folder: TemporaryFolder) throws -> Connection {
        let oracle = try Connection(path: folder.file("oracle.db"))
        try oracle.execute(script: "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        return oracle
    }

    // MARK: Files

    func path(_ file: Int) -> String { folders[state.folders[file]].file("f\(file).db") }

    func configuration() -> DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        configuration.busyTimeout = .milliseconds(300)
        configuration.readerCount = 1
        let places = (0..<Self.fileCount).map { (name: "f\($0).db", path: path($0)) }
        configuration.sourcePath = { former in places.first { former.hasSuffix($0.name) }?.path }
        let keys = zip(places, keys).map { ($0.name, $1) }
        configuration.sourceKey = { path in keys.first { path.hasSuffix($0.0) }?.1 }
        return configuration
    }

    /// The database of a file. It is opened if it is not open.
    func database(_ file: Int) throws -> Database {
        if let database = databases[file] { return database }
        let database = try faulty("open f\(file)") {
            try Database(path: path(file), key: keys[file], configuration: configuration())
        }
        if isBuilt { try database.buildsAllTables() }
        databases[file] = database
        return database
    }

    func close(_ file: Int) {
        databases.removeValue(forKey: file)?.close()
    }

    func closeAll() {
        endReader()
        for file in Array(databases.keys) { close(file) }
    }

    func plainly<Result>(_ file: Int, _ body: (Connection) throws -> Result) throws -> Result {
        let connection = try Connection(path: path(file), options: OpenOptions(key: keys[file]))
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 300)
        return try body(connection)
    }

    func note(_ text: String) {
        log.append(text)
        guard isVerbose else { return }
        print(text)
    }

    /// Counts a refusal that is documented for the operation. Every other error is a problem.
    ///
    /// - Parameters:
    ///   - table: The table whose rows the operation writes or moves. It may have rows that a CHECK refuses.
    ///   - fits: Whether all rows that are to go elsewhere have been tried there, and fit.
    func refuse(_ operation: String, _ error: any Error, of table: LifeTable? = nil, fits: Bool = false) throws {
        if let error = error as? SQLiteError, error.code == Self.checkFailed, let table, try hasRefusedRows(table) {
            note("  refused: \(error)")
            refusals["\(operation): \(error.code)", default: 0] += 1
            return
        }
        if let error = error as? SQLiteError, error.code.primary == .busy, reader != nil {
            return note("  a reader is in the way: \(error)")
        }
        guard let error = error as? MigrationError, Self.refusals[operation]?.contains(error.code) == true else {
            throw LifeProblem("\(operation): \(error)")
        }
        // A move that has to end first may stop at a row that a CHECK refuses.
        let isRefused = try error.code == .rowRefused && !(table.map { try hasRefusedRows($0) } ?? false)
        if fits, error.code == .keyCollision || isRefused {
            throw LifeProblem("\(operation): refused although all rows fit: \(error)")
        }
        note("  refused: \(error.code.rawValue): \(error.message)")
        let words = error.message.prefix(150).map { $0.isNumber ? "#" : $0 }
        refusals["\(operation): \(error.code.rawValue): \(String(words))", default: 0] += 1
    }

    /// Whether a table has rows that its CHECK refuses.
    func hasRefusedRows(_ only: LifeTable? = nil) throws -> Bool {
        try state.tables.contains { table in
            guard let refused = table.shape.refused, only == nil || only?.id == table.id else { return false }
            return try oracle.fetchValue(Int.self, "SELECT count(*) FROM \(table.plain) WHERE \(refused)") != 0
        }
    }

    /// SQLITE_CONSTRAINT_CHECK. Source: <https://www.sqlite.org/rescode.html#constraint_check>.
    static let checkFailed = ResultCode(rawValue: 275)

    /// The errors with which each operation may be refused.
    private static let refusals: [String: Set<MigrationError.Code>] = {
        let moves: Set<MigrationError.Code> = [.unsupported, .unequalTables, .keyCollision, .misuse, .rowRefused]
        return [
            "add": moves, "add kept": moves, "split": moves, "move a part": moves, "join": moves,
            "rebuild": moves, "rebuild kept": moves.union([.refusedStatement]), "upgrade": moves,
            "step": [.rowRefused], "cancel": [.unsupported, .misuse],
            "create": [.refusedStatement], "rename": [.refusedStatement], "rename column": [.refusedStatement],
            "add column": [.refusedStatement], "create index": [.refusedStatement], "vacuum": [.refusedStatement],
            "update all": [.refusedStatement], "write": [.refusedStatement], "delete refused rows": [.refusedStatement],
            "rename kept": [.refusedStatement], "drop kept": [.refusedStatement],
        ]
    }()

    // MARK: Tables

    func newName() -> String {
        state.names += 1
        return "t\(state.names)"
    }

    func index(of table: Int) -> Int? { state.tables.firstIndex { $0.id == table } }

    private func createTable(_ dice: Dice) throws {
        let place = LifePlace(file: dice.below(Self.fileCount), table: newName())
        let shape = LifeShape(dice)
        let statements = [shape.createTable(place.table)] + shape.createIndexes(place.table, number: &state.indexes)
        try oracle.execute(shape.createTable(place.table))
        let unique = shape.indexes.filter(\.isUnique).map {
            "CREATE UNIQUE INDEX u\(place.table) ON \(place.table)(\($0.columns.joined(separator: ", ")))"
        }
        for sql in unique { try oracle.execute(sql) }
        let table = LifeTable(id: state.names, place: place, shape: shape)
        state.tables.append(table)
        try plainly(place.file) { plain in
            if dice.percent(50) { try plain.execute("PRAGMA journal_mode = WAL") }
            for sql in statements { try plain.execute(sql) }
            var inserts: [String] = []
            for _ in 0..<dice.pick([0, 3, 20, 60]) {
                inserts.append(LifeStatements(table, oracle, dice).insert("OR IGNORE"))
            }
            for sql in inserts {
                try plain.execute(sql)
                try oracle.execute(sql)
            }
            note(
                "\(statements.joined(separator: "; ")) in f\(place.file), \(inserts.count) rows: \(inserts.prefix(60))"
            )
        }
    }

    // MARK: Checks

    /// Compares every logical table with its plain table.
    func check(plainlyToo: Bool = false) throws {
        try checkReader()
        for index in state.tables.indices {
            let table = state.tables[index]
            let sql = table.shape.dump(table.place.table, rowIDs: table.knowsRowIDs, where: table.part)
            let order = table.knowsRowIDs || table.shape.key != .implicit
            func rows(_ rows: [Row]) -> [String] {
                let texts = rows.map(Self.text)
                return order ? texts : texts.sorted()
            }
            let expected = try rows(oracle.fetchAll(table.shape.dump(table.plain, rowIDs: table.knowsRowIDs)))
            func compare(_ found: [String], _ how: String) throws {
                if found != expected { throw LifeProblem("\(table.place) \(how): " + Self.difference(found, expected)) }
            }
            let database = try database(table.place.file)
            do {
                let found = try rows(database.fetchAll(sql))
                if table.setsAside, try takeAside(table, Set(expected).subtracting(found)) {
                    return try check(plainlyToo: plainlyToo)
                }
                if table.mends, try mend(table, Set(expected).subtracting(found)) {
                    return try check(plainlyToo: plainlyToo)
                }
                try compare(found, "reads")
                let count =
                    try database.fetchValue(
                        Int.self,
                        "SELECT count(*) FROM \(table.place.table) WHERE \(table.part ?? "1")"
                    ) ?? -1
                if count != expected.count {
                    throw LifeProblem("\(table.place) counts \(count), not \(expected.count)")
                }
            } catch let problem as LifeProblem {
                throw problem
            } catch {
                throw LifeProblem("\(table.place) cannot be read: \(error)")
            }
            if plainlyToo, table.move == nil {
                try plainly(table.place.file) { try compare(rows($0.fetchAll(sql)), "reads by SQLite alone") }
            }
            if !table.knowsRowIDs, table.part == nil { try learnRowIDs(index) }
        }
        guard plainlyToo else { return }
        for file in 0..<Self.fileCount where Files.exists(path(file)) {
            let found = try plainly(file) { try $0.fetchValue(String.self, "PRAGMA integrity_check") }
            // An UPDATE leaves a row as it is if the row was there before its CHECK.
            if found?.hasPrefix("CHECK constraint failed") == true { continue }
            if found != "ok" { throw LifeProblem("f\(file) is damaged: \(found ?? "")") }
        }
    }

    /// The missing rows of the plain table, if a CHECK refuses them, by the values of the columns that identify them.
    ///
    /// - Returns: `nil` if a CHECK refuses only some of the missing rows, or none.
    private func refusedRows(_ table: LifeTable, _ missing: Set<String>) throws -> (names: [String], keys: [Arguments])?
    {
        guard !missing.isEmpty, let refused = table.shape.refused else { return nil }
        let names = table.shape.key.hasRowID ? ["rowid"] : ["id", "k"]
        let sql = table.shape.dump(table.plain, rowIDs: table.knowsRowIDs, where: refused)
            .replacing(/^SELECT/, with: "SELECT \(names.joined(separator: ", ")),")
        let aside = try oracle.fetchAll(sql).filter { row in
            missing.contains(Self.text(Array(row.values.dropFirst(names.count))))
        }
        guard aside.count == missing.count else { return nil }
        return (names.map { "\($0) = ?" }, aside.map { Arguments(Array($0.values.prefix(names.count))) })
    }

    /// Gives refused rows of the plain table the values that the application has answered.
    ///
    /// - Returns: Whether there were such rows.
    private func mend(_ table: LifeTable, _ missing: Set<String>) throws -> Bool {
        guard let (names, keys) = try refusedRows(table, missing) else { return false }
        let assignments = table.shape.checked.map { "\"\($0)\" = NULL" }.joined(separator: ", ")
        for key in keys {
            try oracle.execute(
                "UPDATE \(table.plain) SET \(assignments) WHERE \(names.joined(separator: " AND "))",
                key
            )
        }
        note("  \(keys.count) rows of \(table.place) are mended")
        return true
    }

    /// Deletes rows that have been set aside from the plain table.
    ///
    /// - Returns: Whether there were such rows.
    private func takeAside(_ table: LifeTable, _ missing: Set<String>) throws -> Bool {
        guard let (names, aside) = try refusedRows(table, missing) else { return false }
        for key in aside {
            try oracle.execute("DELETE FROM \(table.plain) WHERE \(names.joined(separator: " AND "))", key)
        }
        state.aside[table.place.file] += aside.count
        note("  \(aside.count) rows of \(table.place) are set aside")
        let database = try database(table.place.file)
        let count = try database.fetchAll(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'midstream_refused_*'"
        )
        .reduce(0) { sum, row in
            try sum + (database.fetchValue(Int.self, "SELECT count(*) FROM \(row.get(0, as: String.self))") ?? 0)
        }
        guard count == state.aside[table.place.file] else {
            throw LifeProblem("f\(table.place.file): \(count) rows are set aside, not \(state.aside[table.place.file])")
        }
        return true
    }

    /// Gives the plain table's rows the rowids that the rows really have.
    private func learnRowIDs(_ index: Int) throws {
        let table = state.tables[index]
        guard table.shape.key == .implicit else { return state.tables[index].knowsRowIDs = true }
        let columns = ["rowid"] + table.shape.stored
        let rows = try database(table.place.file)
            .fetchAll("SELECT \(columns.joined(separator: ", ")) FROM \(table.place.table)")
        try oracle.transaction {
            try oracle.execute("PRAGMA ignore_check_constraints = ON")
            try oracle.execute("DELETE FROM \(table.place.table)")
            let marks = columns.map { _ in "?" }.joined(separator: ", ")
            for row in rows {
                try oracle.execute(
                    "INSERT INTO \(table.place.table)(\(columns.joined(separator: ", "))) VALUES (\(marks))",
                    Arguments(row.values)
                )
            }
        }
        try oracle.execute("PRAGMA ignore_check_constraints = OFF")
        state.tables[index].knowsRowIDs = true
    }

    /// Unlike SQLite's comparison, this tells 1 from 1.0.
    static func text(_ row: Row) -> String { text(row.values) }

    private static func text(_ values: [SQLiteValue]) -> String {
        values.map { value in
            switch value {
            case .null: "NULL"
            case .integer(let integer): "\(integer)"
            case .real(let real): real == 0 ? "0.0" : "r\(real)"
            case .text(let text): "'\(text)'"
            case .blob(let bytes): bytes.count > 20 ? "x\(bytes.count):\(bytes.hashValue)" : "x\(bytes)"
            }
        }
        .joined(separator: "|")
    }

    static func difference(_ found: [String], _ expected: [String]) -> String {
        var (surplus, missing) = (found, expected)
        for row in expected { if let index = surplus.firstIndex(of: row) { surplus.remove(at: index) } }
        for row in found { if let index = missing.firstIndex(of: row) { missing.remove(at: index) } }
        let order = surplus.isEmpty && missing.isEmpty ? ", in another order" : ""
        return "\(found.count) rows for \(expected.count)\(order); surplus \(surplus.count): \(surplus.prefix(3)), "
            + "missing \(missing.count): \(missing.prefix(3))"
    }
}
