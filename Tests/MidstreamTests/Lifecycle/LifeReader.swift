import Dispatch
import Midstream
import SQLiteConnection

/// A read transaction of a file. It stays open while other things happen, and must go on seeing what it saw at first.
final class LifeReader: @unchecked Sendable {
    let file: Int
    private let statements: [String]
    private let requests = DispatchSemaphore(value: 0)
    private let answers = DispatchSemaphore(value: 0)
    /// One thread writes this while the other waits.
    private var isOver = false
    private var found: Result<[[String]], any Error> = .success([])
    private var first: [[String]] = []

    /// - Parameter statements: The queries whose rows must not change.
    init(_ file: Int, _ statements: [String], open: @escaping @Sendable () throws -> Database) throws {
        self.file = file
        self.statements = statements
        DispatchQueue(label: "midstream.tests.reader").async { self.live(open) }
        answers.wait()
        first = try found.get()
    }

    private func live(_ open: () throws -> Database) {
        do {
            let database = try open()
            defer { database.close() }
            try database.read { access in
                repeat {
                    // If no column identifies the rows, they come in any order.
                    found = Result { try statements.map { try access.fetchAll($0).map(LifeWorld.text).sorted() } }
                    answers.signal()
                    requests.wait()
                } while !isOver
            }
        } catch {
            found = .failure(error)
        }
        answers.signal()
    }

    /// In words, what the reader sees now and did not see at first; `nil` if nothing has changed.
    func difference() -> String? {
        requests.signal()
        answers.wait()
        switch found {
        case .failure(let error): return "a reader of f\(file) fails: \(error)"
        case .success(let rows):
            guard let index = rows.indices.first(where: { rows[$0] != first[$0] }) else { return nil }
            return "a reader of f\(file) sees what came later: \(statements[index]): "
                + LifeWorld.difference(rows[index], first[index])
        }
    }

    func end() {
        isOver = true
        requests.signal()
        answers.wait()
    }
}

extension LifeWorld {
    /// Starts a reader of a file, and ends the one from before, if there is one; or only ends that one.
    func holdReader(_ dice: Dice) throws {
        if state.tables.isEmpty { return }
        let file = dice.pick(state.tables).place.file
        let former = reader
        endReader()
        if former != nil, dice.percent(50) { return }
        note("a reader of f\(file)")
        let statements = state.tables.filter { $0.place.file == file }.flatMap { table in
            [
                table.shape.dump(table.place.table, rowIDs: false, where: table.part),
                "SELECT count(*), max(k), min(id) FROM \(table.place.table) WHERE \(table.part ?? "1")",
            ]
        }
        let (path, key, configuration) = (path(file), keys[file], configuration())
        reader = try LifeReader(file, statements) { try Database(path: path, key: key, configuration: configuration) }
    }

    func endReader() {
        guard let ended = reader else { return }
        note("  the reader of f\(ended.file) ends")
        ended.end()
        reader = nil
    }

    func checkReader() throws {
        if let difference = reader?.difference() { throw LifeProblem(difference) }
    }
}
