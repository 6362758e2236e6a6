internal import SQLiteConnection

/// A statement of the demonstration's application.
struct DemoStatement: Sendable {
    var sql: String
    var values: [SQLiteValue]

    init(_ sql: String, _ values: SQLiteValue...) {
        self.sql = sql
        self.values = values
    }
}

/// The result of a statement, on moving tables or on tables that do not move.
enum DemoResult: Equatable, Sendable {
    case rows([Row])
    /// The result of a write: how many rows it changed, and the rowid of the last row inserted.
    case changed(rows: Int64, lastInsertRowID: Int64)
    case failure(code: Int32, message: String)

    /// Runs a statement by one of two closures: `fetch` for a statement that reads, `execute` for one that writes.
    ///
    /// - Throws: Errors that are not SQLite's own.
    static func of(
        _ statement: DemoStatement,
        fetch: (String, Arguments) throws -> [Row],
        execute: (String, Arguments) throws -> (changes: Int64, lastInsertRowID: Int64)
    ) throws -> DemoResult {
        let arguments = Arguments(values: statement.values)
        do {
            if statement.sql.hasPrefix("SELECT") { return .rows(try fetch(statement.sql, arguments)) }
            let (changes, rowID) = try execute(statement.sql, arguments)
            return .changed(rows: changes, lastInsertRowID: rowID)
        } catch let error as SQLiteError {
            return .failure(code: error.code.rawValue, message: error.message)
        }
    }
}

/// A statement and its result.
struct DemoOutcome: Sendable {
    var statement: DemoStatement
    var result: DemoResult
}
