internal import Midstream
internal import SQLiteConnection

/// One of the ways to do the same work on the same rows.
enum Contender {
    /// Through Midstream, whether its table moves or not.
    case database(Database)
    /// Plain SQLite, on a connection of its own with the same settings.
    case connection(Connection)

    /// Runs a query for each of the arguments, in one transaction.
    ///
    /// - Returns: The number of rows read.
    @discardableResult
    func read(_ sql: String, _ arguments: [Arguments]) throws -> Int {
        switch self {
        case .database(let database):
            try database.read { access in
                var rows = 0
                for values in arguments { rows += try access.fetchAll(sql, values).count }
                return rows
            }
        case .connection(let connection):
            try connection.transaction {
                var rows = 0
                for values in arguments { rows += try connection.fetchAll(sql, values).count }
                return rows
            }
        }
    }

    /// Runs a query for each of the arguments, each in a transaction of its own.
    func readSingly(_ sql: String, _ arguments: [Arguments]) throws {
        switch self {
        case .database(let database):
            for values in arguments { _ = try database.fetchOne(sql, values) }
        case .connection(let connection):
            for values in arguments { _ = try connection.fetchOne(sql, values) }
        }
    }

    /// Runs a query for each of the arguments in one transaction, each with its value in its text.
    func readAnew(_ sql: String, _ arguments: [Arguments]) throws {
        let parts = sql.split(separator: "?", omittingEmptySubsequences: false)
        func text(_ values: Arguments) -> String {
            guard case .integer(let number)? = values.positional.first else { return sql }
            return parts[0] + "\(number)" + parts[1]
        }
        switch self {
        case .database(let database):
            try database.read { access in for values in arguments { _ = try access.fetchAll(text(values)) } }
        case .connection(let connection):
            try connection.transaction { for values in arguments { _ = try connection.fetchAll(text(values)) } }
        }
    }

    func rows(_ sql: String, _ arguments: Arguments = []) throws -> [Row] {
        switch self {
        case .database(let database): try database.fetchAll(sql, arguments)
        case .connection(let connection): try connection.fetchAll(sql, arguments)
        }
    }

    /// Runs a statement in a transaction of its own.
    func execute(_ sql: String, _ arguments: Arguments = []) throws {
        switch self {
        case .database(let database): try database.execute(sql, arguments)
        case .connection(let connection): try connection.execute(sql, arguments)
        }
    }

    /// Runs `body` in a transaction. `body` is given a closure that runs a statement.
    func writing(_ body: ((String, Arguments) throws -> Void) throws -> Void) throws {
        switch self {
        case .database(let database): try database.write { access in try body { try access.execute($0, $1) } }
        case .connection(let connection):
            try connection.transaction(.immediate) { try body { try connection.execute($0, $1) } }
        }
    }
}
