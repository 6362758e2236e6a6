import Midstream
import SQLiteConnection
import Synchronization
import Testing

/// A source without rowids that has damaged pages: no other row is lost, and Midstream tells which keys cannot be read.
@Suite struct DamagedSourceKeyTests {
    private let folder = TemporaryFolder()
    private var source: String { folder.file("old.db") }
    private var target: String { folder.file("new.db") }

    private static let pageSize = 1024
    private static let rows: Int64 = 3000
    /// A row of several pages.
    private static let longRow: Int64 = 1700

    /// The kind of the rows' keys.
    enum Shape: String, CaseIterable {
        case text, descendingText, pairs, descendingPairs, numbers

        var columns: String { self == .numbers ? "id" : [.text, .descendingText].contains(self) ? "k" : "chat, n" }

        var schema: String {
            switch self {
            case .text: "(k TEXT PRIMARY KEY, u, text)"
            case .descendingText: "(k TEXT, u, text, PRIMARY KEY(k DESC))"
            case .pairs: "(chat TEXT COLLATE NOCASE, n INTEGER, u, text, PRIMARY KEY(chat, n))"
            case .descendingPairs: "(chat TEXT COLLATE NOCASE, n INTEGER, u, text, PRIMARY KEY(chat, n DESC))"
            case .numbers: "(id INTEGER PRIMARY KEY, u, text)"
            }
        }

        /// If the key is an integer, the target's rows are known by their rowids.
        var targetSchema: String { schema + (self == .numbers ? "" : " WITHOUT ROWID") }

        /// The key of row `i`, as SQL.
        var key: String {
            switch self {
            case .text, .descendingText: "printf('k%05d', i)"
            case .pairs, .descendingPairs:
                "CASE i % 2 WHEN 0 THEN 'chat ' ELSE 'CHAT ' END || char(97 + i / 700), i % 700"
            case .numbers: "i"
            }
        }

        /// Whether row `a` comes before row `b` in the order of the keys as they are copied.
        func precedes(_ a: Int64, _ b: Int64) -> Bool {
            self == .descendingPairs ? (a / 700, b) < (b / 700, a) : a < b
        }
    }

    /// What is damaged.
    enum Damage: String, CaseIterable {
        case leaf, firstLeaf, lastLeaf, twoLeaves, interior, overflow
    }

    private func begin(_ shape: Shape, _ policy: UnreadableRowPolicy, condition: String? = nil) throws -> Database {
        let database = try Database(path: target)
        try database.execute("CREATE TABLE IF NOT EXISTS t\(shape.targetSchema)")
        try database.addMigration(source: .file(source)) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "s"
            table.condition = condition
            table.unreadableRows = policy
        }
        return database
    }

    /// Makes the source.
    private func makeSource(
        _ shape: Shape,
        hasIndex: Bool = false,
        longRow: Int64 = Self.longRow,
        options: String = " WITHOUT ROWID"
    ) throws {
        let old = try Connection(path: source)
        try old.execute("PRAGMA page_size = \(Self.pageSize)")
        try old.execute("CREATE TABLE s\(shape.schema)\(options)")
        try old.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO s SELECT \(shape.key), i * 7919 % 3001,
                'row ' || i || ' ' || hex(zeroblob(CASE i WHEN \(longRow) THEN 3000 ELSE 20 END)) FROM n
            """
        )
        if hasIndex { try old.execute("CREATE INDEX s_by_u ON s(u)") }
        old.close()
    }

    /// Writes the content of the WAL into the file.
    private func empty() throws {
        let connection = try Connection(path: source)
        _ = try connection.checkpoint(mode: .truncate)
        connection.close()
    }

    /// The rows in the order of their keys.
    private func ordered(_ shape: Shape) -> [Int64] { (1...Self.rows).sorted(by: shape.precedes) }

    /// Overwrites pages.
    ///
    /// - Returns: The rows on these pages, and the rows between them.
    private func inflict(_ damage: Damage, _ shape: Shape) throws -> (lost: Set<Int64>, between: Set<Int64>) {
        let file = DamagedPages(path: source, pageSize: Self.pageSize)
        let order = ordered(shape)
        var pages: [Int]
        var lost: Set<Int64> = []
        var between: Set<Int64> = []
        /// The next leaf, beyond the row that the page above has between the two leaves.
        func leaf(after page: Int) throws -> (page: Int, rows: ArraySlice<Int64>) {
            let rows = Set(file.rows(page))
            let end = try #require(order.lastIndex { rows.contains($0) })
            let next = file.leaf(of: order[end + 2])
            let last = try #require(order.lastIndex { Set(file.rows(next)).contains($0) })
            return (next, order[(end + 1)...min(last + 1, order.count - 1)])
        }
        switch damage {
        case .leaf: pages = [file.leaf(of: 1000)]
        case .firstLeaf: pages = [file.leaf(of: order[0])]
        case .lastLeaf: pages = [file.leaf(of: order[order.count - 1])]
        case .twoLeaves:
            let first = file.leaf(of: 1000)
            let middle = try leaf(after: first)
            between = Set(middle.rows)
            pages = [first, try leaf(after: middle.page).page]
        case .interior:
            let root = try rootPage()
            let interior = file.all.filter { file.kind($0) == .indexInterior && $0 != root && !file.rows($0).isEmpty }
            pages = [try #require(interior.dropFirst().first)]
            lost = Set(file.rows(pages[0]) + file.children(of: pages[0]).flatMap(file.rows))
        case .overflow:
            pages = [try #require(file.overflow)]
            lost = [Self.longRow]
        }
        if lost.isEmpty { lost = Set(pages.flatMap(file.rows)) }
        try #require(!lost.isEmpty)
        #expect(file.overwrite(pages))
        return (lost, between)
    }

    private func rootPage() throws -> Int {
        let connection = try Connection(path: source, options: OpenOptions(access: .readOnly))
        defer { connection.close() }
        return (try connection.fetchValue("SELECT rootpage FROM sqlite_master WHERE name = 's'") ?? 0) - 1
    }

    private func steps(_ database: Database) throws -> MigrationError? {
        do {
            for _ in 0..<10_000 where try database.stepMigration().isFinished { return nil }
        } catch let error as MigrationError {
            return error
        }
        throw MigrationStalled()
    }

    // MARK: What is told

    /// The numbers of the rows, by their keys.
    private func numbers(_ shape: Shape) throws -> [[SQLiteValue]: Int64] {
        let connection = try Connection(path: folder.file("keys.db"))
        defer { connection.close() }
        let rows = try connection.fetchAll(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows)) SELECT i, \(shape.key) FROM n"
        )
        return Dictionary(uniqueKeysWithValues: try rows.map { (Array($0.values.dropFirst()), try $0.get(0)) })
    }

    /// The rows of which Midstream tells.
    private func rows(_ told: [UnreadableKeys], _ shape: Shape) throws -> Set<Int64> {
        let numbers = try numbers(shape)
        func number(_ key: [SQLiteValue]?) throws -> Int64? { try key.map { try #require(numbers[$0]) } }
        var rows: Set<Int64> = []
        for keys in told {
            switch keys {
            case .rowIDs(let rowIDs): rows.formUnion(rowIDs.clamped(to: 1...Self.rows).filter(rowIDs.contains))
            case .row(let key): rows.insert(try #require(try number(key)))
            case .between(let start, let end):
                let (start, end) = (try number(start), try number(end))
                rows.formUnion(
                    (1...Self.rows).filter { row in
                        (start.map { shape.precedes($0, row) } ?? true) && (end.map { shape.precedes(row, $0) } ?? true)
                    }
                )
            }
        }
        return rows
    }

    /// The content of the report table.
    private func report(_ database: Database, _ shape: Shape) throws -> [UnreadableKeys] {
        try database.fetchAll("SELECT * FROM midstream_unreadable_t ORDER BY rowid").map { row in
            let values = row.values.dropLast()
            #expect(row[row.values.count - 1] == .text("database disk image is malformed"))
            if shape == .numbers { return .rowIDs(try row.get(0, as: Int64.self)...row.get(1, as: Int64.self)) }
            let names = shape.columns.split(separator: ", ")
            #expect(
                Array(row.columns.names) == ["key_", "after_", "before_"].flatMap { prefix in names.map { prefix + $0 }
                } + ["reason"]
            )
            let parts = (0..<3).map { Array(values[($0 * names.count)...].prefix(names.count)) }
            func key(_ values: [SQLiteValue]) -> [SQLiteValue]? { values[0].isNull ? nil : values }
            return key(parts[0]).map { .row($0) } ?? .between(key(parts[1]), key(parts[2]))
        }
    }

    /// The rows that have come, as their texts number them.
    private func arrived() throws -> [Int64] {
        let connection = try Connection(path: target, options: OpenOptions(access: .readOnly))
        defer { connection.close() }
        return try connection.fetchAll(
            "SELECT CAST(substr(text, 5) AS INTEGER) FROM t WHERE text LIKE 'row %' ORDER BY 1"
        )
        .map { try $0.get(0) }
    }

    // MARK: Tests

    @Test(arguments: Sample.pairs(Shape.allCases, Damage.allCases))
    func theRowsBeforeItMoveAndTheErrorNamesIt(_ shape: Shape, _ damage: Damage) throws {
        try makeSource(shape)
        try begin(shape, .stop).close()
        try empty()
        let lost = try inflict(damage, shape).lost
        let before = ordered(shape).prefix { !lost.contains($0) }
        let database = try begin(shape, .stop)
        for _ in 0..<2 {
            let error = try #require(try steps(database))
            #expect(error.code == .unreadableRows && error.cause?.code.primary == .corrupt, "\(error)")
            let told = try rows([try #require(error.unreadableKeys)], shape)
            #expect(told.contains(ordered(shape)[before.count]), "\(String(describing: error.unreadableKeys))")
            #expect(before.allSatisfy { !told.contains($0) })
            #expect(try arrived() == before.sorted())
            #expect(error.message.contains("\(try #require(error.unreadableKeys))"), "\(error)")
        }
        #expect(try database.readMigrationProgress().tables.first?.unreadableRowsTable == nil)
    }

    @Test(arguments: Sample.pairs(Shape.allCases, Damage.allCases))
    func theRestMovesIfToldTo(_ shape: Shape, _ damage: Damage) throws {
        try theRestMoves(shape, damage, hasIndex: false)
    }

    @Test(arguments: Sample.pairs(Shape.allCases, Damage.allCases))
    func whatAnotherIndexListsMoves(_ shape: Shape, _ damage: Damage) throws {
        try theRestMoves(shape, damage, hasIndex: true)
    }

    /// An old SQLite makes other plans, so less may be found beside damage. Midstream tells of what is not found.
    private let isOldSQLite = Connection.libraryVersionNumber < 3_040_000

    private func theRestMoves(_ shape: Shape, _ damage: Damage, hasIndex: Bool) throws {
        try makeSource(shape, hasIndex: hasIndex)
        var database = try begin(shape, .skip)
        // Rows that statements have brought over are not lost.
        let rescued: Set<Int64> = damage == .leaf || damage == .twoLeaves ? [1000] : []
        if !rescued.isEmpty { try database.execute("UPDATE t SET u = 'rescued' WHERE text LIKE 'row 1000 %'") }
        database.close()
        try empty()
        let (onPages, between) = try inflict(damage, shape)
        var lost = onPages.subtracting(rescued)
        // Keys that no index lists are found if they are dense numbers.
        let isListed = shape == .numbers || shape == .pairs && !isOldSQLite
        if !hasIndex && !isListed { lost.formUnion(between) }
        let events = Mutex<[UnreadableKeys]>([])
        database = try begin(shape, .skip)
        database.onMigrated { event in
            if case .rowsSkipped("t", let keys) = event { events.withLock { $0.append(keys) } }
        }
        #expect(try steps(database) == nil)
        let wanted = (1...Self.rows).filter { !lost.contains($0) }
        let found = try arrived()
        #expect(found == wanted, "\(Set(wanted).symmetricDifference(found).sorted())")
        #expect(
            try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE u IS NOT 'rescued' AND length(text) > 40")
                == wanted.count - rescued.count
        )
        let told = events.withLock(\.self)
        #expect(try report(database, shape) == told)
        #expect(try rows(told, shape) == lost.union(rescued), "\(told)")
        // If the keys can be listed, Midstream tells each of them.
        if hasIndex { #expect(told.allSatisfy { if case .between = $0 { false } else { true } }) }
        database.close()
        // Rows that could not be read stay in the source.
        let old = try Connection(path: source, options: OpenOptions(access: .readOnly))
        defer { old.close() }
        #expect(try old.fetchValue(String.self, "SELECT type FROM sqlite_master WHERE name = 's'") == "table")
    }

    /// A seek reads the whole of each row with which it compares, so it may fail on its way to other rows.
    ///
    /// - Parameter other: The position, in the order of the keys, at which another page is damaged; 0 for none.
    @Test(arguments: Sample.pairs(Shape.allCases, [0, 900, 2500]))
    func rowsBesideALongOneMove(_ shape: Shape, _ other: Int) throws {
        // A binary search looks at the middle of its page first.
        let longRow = try #require(
            (Self.longRow...Self.longRow + 20).first { row in
                Files.removeDatabase(source)
                try makeSource(shape, longRow: row)
                let file = DamagedPages(path: source, pageSize: Self.pageSize)
                let rows = file.rows(file.leaf(of: row))
                return rows.firstIndex(of: row) == (rows.count - 1) / 2
            }
        )
        let order = ordered(shape)
        let position = try #require(order.firstIndex(of: longRow))
        let whole = folder.file("whole.db")
        Files.copyDatabase(source, to: whole)
        // As the watermark comes nearer, the seek from there meets the long row at other places.
        for distance in 1...6 {
            Files.removeDatabase(target)
            Files.copyDatabase(whole, to: source)
            var database = try begin(shape, .skip)
            _ = try database.stepMigration(rows: Int64(position - distance))
            database.close()
            try empty()
            let file = DamagedPages(path: source, pageSize: Self.pageSize)
            // Of two rows that follow each other, one is on a leaf.
            let leaf = other == 0 ? nil : max(file.leaf(of: order[other]), file.leaf(of: order[other + 1]))
            let overflow = try #require(file.overflow)
            #expect(file.overwrite([overflow] + (leaf.map { [$0] } ?? [])))
            database = try begin(shape, .skip)
            // Rows that have moved before cannot be counted in the source any more.
            #expect(try steps(database)?.code == (other == 900 ? .unreadableRows : nil))
            let lost = Set([longRow] + (other == 2500 ? file.rows(try #require(leaf)) : []))
            #expect(try arrived() == (1...Self.rows).filter { !lost.contains($0) }, "\(distance)")
            if other == 900 { #expect(try report(database, shape).count == 1) }
            database.close()
        }
    }

    @Test func theTableIsReadWholeBeyondWhatWasLeftOut() throws {
        try makeSource(.text, hasIndex: true)
        try begin(.text, .skip).close()
        try empty()
        let lost = try inflict(.leaf, .text).lost
        let database = try begin(.text, .skip)
        var reads = 0
        while reads < 5, try !database.stepMigration(rows: 5).isFinished {
            guard try database.readMigrationProgress().tables.first?.unreadableRowsTable != nil else { continue }
            // This query seeks the watermark.
            #expect(try database.fetchValue(Int.self, "SELECT count(text) FROM t") == Int(Self.rows) - lost.count)
            reads += 1
        }
        #expect(reads == 5)
    }

    @Test func aConditionIsAskedOfWhatCanBeRead() throws {
        try makeSource(.pairs, hasIndex: true)
        let condition = "length(text) % 2 = 0 AND n % 3 <> 0"
        try begin(.pairs, .skip, condition: condition).close()
        try empty()
        let lost = try inflict(.twoLeaves, .pairs).lost
        let database = try begin(.pairs, .skip, condition: condition)
        #expect(try steps(database) == nil)
        let wanted = (1...Self.rows).filter { row in
            !lost.contains(row) && row % 700 % 3 != 0 && "row \(row) ".utf8.count % 2 == 0
        }
        #expect(try arrived() == wanted)
    }

    /// If the source has rowids, the key of such a target has an index of its own in the source.
    @Test(arguments: [false, true]) func aSourceWithRowidsLosesNoOtherRow(_ isIndexDamaged: Bool) throws {
        try makeSource(.text, options: "")
        try begin(.text, .skip).close()
        try empty()
        let file = DamagedPages(path: source, pageSize: Self.pageSize)
        let text = Array("k01000".utf8)
        let page =
            isIndexDamaged
            ? file.all.first { page in
                file.kind(page) == .indexLeaf
                    && file.bytes(of: page).indices.contains { file.bytes(of: page)[$0...].starts(with: text) }
            } : file.leaf(of: 1000)
        let lost = Set(isIndexDamaged ? [] : file.rows(try #require(page)))
        #expect(file.overwrite([try #require(page)]))
        let database = try begin(.text, .skip)
        let error = try steps(database)
        #expect(error == nil, "\(String(describing: error))")
        // An old SQLite goes by the index. Even then, Midstream tells of every row that is missing.
        if isIndexDamaged && isOldSQLite {
            return #expect(try Set(arrived()).union(rows(report(database, .text), .text)) == Set(1...Self.rows))
        }
        #expect(try arrived() == (1...Self.rows).filter { !lost.contains($0) })
        if !isIndexDamaged { #expect(try rows(report(database, .text), .text) == lost) }
    }

    @Test(arguments: [Damage.leaf, .twoLeaves, .overflow]) func anotherIndexListsRowids(_ damage: Damage) throws {
        try makeSource(.numbers, hasIndex: true, options: "")
        try begin(.numbers, .skip).close()
        try empty()
        let lost = try inflict(damage, .numbers).lost
        let database = try begin(.numbers, .skip)
        #expect(try steps(database) == nil)
        #expect(try arrived() == (1...Self.rows).filter { !lost.contains($0) })
        #expect(try report(database, .numbers) == lost.sorted().map { .rowIDs($0...$0) })
    }

    @Test func keysAreToldInWords() {
        let (a, b): ([SQLiteValue], [SQLiteValue]) = ([3, "it's"], [4, .blob([1, 255])])
        #expect("\(UnreadableKeys.row(a))" == "key (3, 'it''s')")
        #expect("\(UnreadableKeys.between(a, b))" == "keys after (3, 'it''s') and before (4, x'01ff')")
        #expect("\(UnreadableKeys.between(nil, b))" == "keys before (4, x'01ff')")
        #expect("\(UnreadableKeys.between(a, nil))" == "keys after (3, 'it''s')")
        #expect("\(UnreadableKeys.rowIDs(5...5))" == "rowid 5" && "\(UnreadableKeys.rowIDs(5...7))" == "rowids 5 to 7")
        #expect("\(UnreadableKeys.rowIDs(5...(.max)))" == "rowids from 5 on")
    }
}
