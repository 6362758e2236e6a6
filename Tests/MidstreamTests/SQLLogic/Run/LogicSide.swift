import Midstream
import SQLiteConnection

/// What runs records.
protocol LogicSide {
    func run(_ sql: String) throws
    func isPrepared(_ sql: String) -> Bool
    func rows(
        _ sql: String,
        onStart: (Statement) -> Void,
        _ body: (Statement) throws -> Bool
    ) throws
}

extension Connection: LogicSide {
    func run(_ sql: String) throws { try execute(script: sql) }

    func isPrepared(_ sql: String) -> Bool { (try? prepare(sql)) != nil }

    func rows(_ sql: String, onStart: (Statement) -> Void, _ body: (Statement) throws -> Bool) throws {
        let statement = try prepare(sql)
        var isMore = try statement.step()
        onStart(statement)
        while isMore, try body(statement) { isMore = try statement.step() }
    }
}

extension DatabaseAccess: LogicSide {
    func run(_ sql: String) throws { try execute(sql) }

    /// Not told: how far a statement gets before it fails is its own choice, so that messages alone are compared.
    func isPrepared(_ sql: String) -> Bool { false }

    func rows(_ sql: String, onStart: (Statement) -> Void, _ body: (Statement) throws -> Bool) throws {
        try forEachRow(sql, onStart: onStart, body)
    }
}

extension LogicSide {
    /// - Throws: What is no error of the SQL's own: a reader cannot do what the record needs.
    func answer(_ record: LogicRecord) throws -> LogicAnswer {
        guard case .query(let query) = record.expectation else {
            do {
                try run(record.sql)
                return .success
            } catch let error as SQLiteError {
                return .failure(message: error.message)
            }
        }
        let types = Array(query.types.utf8)
        var columns = types.count
        var found: [[String]] = []
        do {
            try rows(record.sql) {
                columns = $0.columnCount
            } _: { statement in
                found.append(LogicValue.row(statement, types))
                return true
            }
            return columns == types.count ? .values(found, query.sort) : .wrongColumns(count: columns)
        } catch let error as SQLiteError {
            guard isPrepared(record.sql), case .values(let values) = LogicAnswer.values(found, query.sort) else {
                return .failure(message: error.message)
            }
            return .failure(message: error.message, values: values)
        }
    }
}
