internal import Midstream
internal import SQLiteConnection

/// The cost of statements while their table moves, as a multiple of the same statement's cost on a native table with
/// the same content, through the same class and through plain SQLite.
struct OperationsBenchmark {
    private let options: Options
    private let messages: Messages
    private let folder: WorkFolder
    private let profiler: Profiler?
    private var states = OperationsBenchmark.states

    /// How much of the table has moved when it is measured.
    private struct State {
        var name: String
        var moved: Double
        /// The part of the rows, spread over the table, that are promoted before.
        var promoted = 0.0
    }

    private static let states = [
        State(name: "0 %", moved: 0), State(name: "1 %", moved: 0.01), State(name: "50 %", moved: 0.5),
        State(name: "50 %, ledger", moved: 0.5, promoted: 0.005), State(name: "99 %", moved: 0.99),
        State(name: "after", moved: 1),
    ]

    /// One line of the table.
    private struct Line {
        var name: String
        /// How many runs of the work a slice has.
        var count: Int
        var cells: [Cell?]
    }

    /// The indexes of the ways in a cell.
    private static let (moving, native, plain, view) = (0, 1, 2, 3)

    static func run(_ options: Options, _ report: Report) throws {
        let folder = try WorkFolder(below: options.folder)
        var benchmark = OperationsBenchmark(
            options: options,
            messages: Messages(rows: options.rows),
            folder: folder,
            profiler: try options.profiler.map { try Profiler($0) }
        )
        Report.note("operations: making \(options.rows.grouped) rows")
        try benchmark.messages.make(folder.file("rows.db"))
        let lines = try benchmark.measureReads() + benchmark.measureWrites()
        benchmark.print(lines, report)
        if let charts = options.charts { try benchmark.draw(charts + "/cost.svg") }
    }

    // MARK: The files

    /// Opens a native table for each of `Database` and plain SQLite, and a table that begins to move.
    private func open() throws -> (ways: [Contender], moving: Database, view: UnionView?) {
        for name in ["source.db", "native.db", "plain.db"] { try folder.copy("rows.db", to: name) }
        let moving = try Database(path: folder.file("target.db"))
        try moving.execute(Messages.schema)
        try moving.execute(Messages.index)
        try moving.execute(Messages.senders)
        let plain = try Connection(path: folder.file("plain.db"))
        try plain.execute("PRAGMA journal_mode = WAL")
        try plain.execute("PRAGMA synchronous = NORMAL")
        var ways: [Contender] = [
            .database(moving), .database(try Database(path: folder.file("native.db"))), .connection(plain),
        ]
        var view: UnionView?
        if options.comparesView {
            try folder.copy("rows.db", to: "view-source.db")
            let made = try UnionView(target: folder.file("view.db"), source: folder.file("view-source.db"))
            ways.append(.connection(made.connection))
            view = made
        }
        for way in ways { try messages.makeSmallTables(way) }
        try moving.addMigration(source: .file(folder.file("source.db"))) { table in
            if ["messages", "senders"].contains(table.name) { table.sourceTable = table.name }
        }
        if options.isGuest { ways[Self.moving] = .connection(try Guest.open(folder.file("target.db"))) }
        return (ways, moving, view)
    }

    private func close(_ ways: [Contender]) {
        for way in ways {
            switch way {
            case .database(let database): database.close()
            case .connection(let connection): connection.close()
            }
        }
        Guest.close()
        for name in ["source.db", "native.db", "plain.db", "target.db", "view.db", "view-source.db"] {
            folder.remove(name)
        }
    }

    /// Measures the time that a slice of a cell takes in each of the ways.
    private func measure(_ cell: inout Cell, _ run: (Int) throws -> Void) throws {
        try cell.measure { way in
            if options.alone, way != Self.moving { return }
            if let profiler { try profiler.look(at: { try run(way) }) } else { try run(way) }
        }
    }

    /// Goes on to the next state.
    private func advance(_ database: Database, _ choice: inout KeyChoice, to state: State) throws {
        if state.moved >= 1 {
            while try !database.stepMigration(budget: .milliseconds(100)).isFinished {}
            try Guest.refresh()
            _ = choice.advance(to: messages.rows)
            return
        }
        let watermark = Int64(state.moved * Double(messages.rows))
        if watermark > choice.watermark {
            try database.stepMigration(rows: choice.advance(to: watermark), of: "messages")
            let senders = try database.fetchValue(Int64.self, "SELECT count(*) FROM main.senders") ?? 0
            try database.stepMigration(
                rows: Int64(state.moved * Double(Messages.senderCount)) - senders,
                of: "senders"
            )
        }
        if state.promoted > 0, let keys = choice.pending(Int(state.promoted * Double(messages.rows))) {
            try database.write { access in
                for key in keys { try access.execute("UPDATE messages SET flags = flags WHERE id = ?", [key]) }
            }
        }
    }

    /// Compares the content of the ways: a benchmark of wrong results would be worth nothing.
    private func check(_ ways: [Contender], _ sql: String, _ arguments: Arguments = []) throws {
        let expected = try ways[Self.plain].rows(sql, arguments)
        for way in [Self.moving, Self.native] where try ways[way].rows(sql, arguments) != expected {
            throw SQLiteError(
                code: .error,
                message: "the moving table gave another result than the native one",
                sql: sql
            )
        }
    }

    // MARK: Reads

    private func measureReads() throws -> [Line] {
        try measure(ReadOperation.all(messages).filter { options.wants(operation: $0.name) })
    }

    private func measure(_ operations: [ReadOperation]) throws -> [Line] {
        if operations.isEmpty { return [] }
        let (ways, moving, view) = try open()
        defer { close(ways) }
        var choice = KeyChoice(messages)
        var random = Random(seed: 5)
        var lines = operations.map { Line(name: $0.name, count: 0, cells: []) }
        for state in states {
            try advance(moving, &choice, to: state)
            try view?.advance(to: Int64(state.moved * Double(messages.rows)), of: messages.rows)
            guard options.wants(state: state.name) else { continue }
            Report.note("operations: reads, \(state.name)")
            for (index, operation) in operations.enumerated() {
                try check(ways, operation.sql, operation.arguments(&random))
                if lines[index].count == 0 { lines[index].count = try size(operation, ways[Self.native], &random) }
                var cell = Cell(ways: ways.count, countsProcessorTime: options.processorTime)
                while !isDone(cell) {
                    let arguments = (0..<lines[index].count).map { _ in operation.arguments(&random) }
                    try measure(&cell) { try operation.run(ways[$0], arguments) }
                }
                lines[index].cells.append(cell)
            }
        }
        return lines
    }

    /// How many runs of a query make a slice of a millisecond or more.
    private func size(_ operation: ReadOperation, _ way: Contender, _ random: inout Random) throws -> Int {
        var count = 1
        while true {
            let arguments = (0..<count).map { _ in operation.arguments(&random) }
            let time = try ContinuousClock().measure { try operation.run(way, arguments) }.inSeconds
            if time > 1e-3 || count >= 1024 { return count }
            count *= 2
        }
    }

    /// At least five slices are measured, unless they take very long.
    private func isDone(_ cell: Cell) -> Bool {
        let time = options.seconds
        return cell.slices >= 5 && cell.total >= time || cell.slices > 0 && cell.total >= 20 * time
    }

    // MARK: Writes

    private func measureWrites() throws -> [Line] {
        let operations = WriteOperation.all(messages).filter { options.wants(operation: $0.name) }
        if operations.isEmpty { return [] }
        let (ways, moving, view) = try open()
        defer { close(ways) }
        var choice = KeyChoice(messages)
        var lines = operations.map { Line(name: $0.name, count: $0.count, cells: []) }
        for state in states {
            guard state.promoted == 0 else {
                guard options.wants(state: state.name) else { continue }
                for index in lines.indices { lines[index].cells.append(nil) }
                continue
            }
            try advance(moving, &choice, to: state)
            try view?.advance(to: Int64(state.moved * Double(messages.rows)), of: messages.rows)
            guard options.wants(state: state.name) else { continue }
            Report.note("operations: writes, \(state.name)")
            for (index, operation) in operations.enumerated() {
                lines[index].cells.append(try measure(operation, ways, &choice))
            }
            // If the moving table is measured alone, the native tables are not written.
            if options.alone { continue }
            try check(ways, "SELECT count(*), sum(id), sum(flags), sum(length(body)), sum(created_at) FROM messages")
        }
        return lines
    }

    private func measure(_ operation: WriteOperation, _ ways: [Contender], _ choice: inout KeyChoice) throws -> Cell? {
        // Work that is done once, such as promoting the last key, must not count in a slice.
        guard let first = operation.choose(&choice, operation.count) else { return nil }
        for way in ways {
            try operation.run(way, first)
            try operation.restore(way, first)
        }
        var cell = Cell(ways: ways.count, countsProcessorTime: options.processorTime)
        while !isDone(cell), cell.slices * operation.count < operation.limit,
            let keys = operation.choose(&choice, operation.count)
        {
            try measure(&cell) { try operation.run(ways[$0], keys) }
            for (index, way) in ways.enumerated() where !options.alone || index == Self.moving {
                try operation.restore(way, keys)
            }
        }
        return cell.slices > 0 ? cell : nil
    }

    // MARK: Printing

    private func print(_ lines: [Line], _ report: Report) {
        let work = options.isGuest ? "operations of a connection of other code" : "operations"
        var tables = [
            ("\(work), times a native table through Database", Self.moving, Self.native),
            ("\(work), times plain SQLite", Self.moving, Self.plain),
        ]
        if options.comparesView {
            tables.append(("operations on a UNION ALL view, times plain SQLite", Self.view, Self.plain))
        }
        for (title, way, base) in tables {
            report.section(
                title,
                "\(options.rows.grouped) messages; columns tell how much of the table has moved"
                    + (options.processorTime ? "; processor time" : "")
            )
            report.table(
                ["operation", "native"] + states.map(\.name).filter { options.wants(state: $0) },
                lines.map { line in
                    let times = line.cells.compactMap { $0?.median(of: base) }
                    return [line.name, (times.median / Double(line.count)).asTime]
                        + line.cells.map { $0?.ratio(of: way, to: base).short ?? "–" }
                }
            )
        }
    }

    // MARK: The chart

    /// The operations in the chart: those that applications do most, and those that cost most.
    private static let drawn = [
        "point select by key", "range by index, ORDER BY, LIMIT 20", "count(*)", "join by key", "correlated",
        "GROUP BY chat_id",
        "full scan, all columns",
    ]

    /// Draws the cost against the part of the rows that has moved.
    private mutating func draw(_ path: String) throws {
        states = stride(from: 0, through: 100, by: 10).map { State(name: "\($0) %", moved: Double($0) / 100) }
        let operations = ReadOperation.all(messages).filter { operation in
            Self.drawn.contains { operation.name.hasPrefix($0) && !operation.name.hasPrefix("count by") }
        }
        let lines = try measure(operations).map { line in
            Chart.Line(
                name: line.name.prefix { $0 != "(" || line.name.hasPrefix("count") }.trimmed,
                points: zip(states, line.cells).compactMap { state, cell in
                    cell.map { (100 * state.moved, $0.ratio(of: Self.moving, to: Self.native)) }
                }
            )
        }
        let native = Chart.Line(name: "native table", points: [(0, 1), (100, 1)], isReference: true)
        let chart = Chart(
            title: "What queries cost while \(messages.rows.grouped) messages move",
            xTitle: "per cent of the rows that have moved",
            yTitle: "times native",
            lines: lines + [native],
            yLabel: { $0.fixed(1) }
        )
        try chart.write(to: path)
    }
}

extension Substring {
    /// The text without spaces at its end.
    fileprivate var trimmed: String { String(reversed().drop { $0 == " " }.reversed()) }
}
