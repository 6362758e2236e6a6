import SQLiteConnection

/// One random database, and what is done to it. It is only data, so that it can be made smaller and run again.
struct OracleCase {
    var tables: [TablePlan]
    var views: [ViewPlan]
    var triggers: [TriggerPlan] = []
    /// Whether the moving tables' rows come from other tables of the target's own file.
    var isSameFile: Bool
    /// The numbers, in `TestKeys`, of the keys of the target's file and the source's.
    var targetKey = 0
    var sourceKey = 0
    var enforcesForeignKeys = false
    /// The statements with which each connection that writes begins.
    var settings: [String] = []
    /// The table that moves on, and the table to which it moves.
    var chain: ChainPlan?
    /// Whether steps build tables; otherwise steps move rows in batches.
    var isBuilt = false
    var operations: [Operation]
}

struct ColumnPlan {
    var name: String
    var type: String
    /// The text after the type: collation, constraints, default, expression.
    var constraints: String
    var isGenerated = false
    /// What of the source the column is made of; `nil` for the column of the same name.
    var origin: Origin?

    enum Origin {
        /// A column of the source of that name and type.
        case column(String, type: String)
        case expression(String)
        case value(SQLiteValue)
        /// Nothing: the column gets its default.
        case absent
    }
}

struct IndexPlan {
    var name: String
    var isUnique: Bool
    /// The text from the parenthesis on.
    var terms: String
    /// Whether the source has the index as well.
    var isInSource: Bool
}

struct RowPlan {
    var rowID: Int64
    var values: [SQLiteValue]
    /// Whether the row is in the target from the start.
    var isInTarget: Bool
}

struct TablePlan {
    var name: String
    /// The source's table; `nil` if the table does not move.
    var sourceName: String?
    /// A second source table, which has every other one of the rows.
    var secondSourceName: String?
    var columns: [ColumnPlan]
    /// The column that is the rowid.
    var rowIDColumn: String?
    /// A name by which the rowid can be reached; without rowids, the first column of the PRIMARY KEY.
    var rowIDName: String
    /// The PRIMARY KEY of a table without rowids.
    var primaryKey: [String] = []
    var isAutoIncrement: Bool
    var isStrict: Bool
    /// Whether a conflict may remove other rows by the table's own definition.
    var mayReplace: Bool
    /// Whether a conflict may roll the transaction back.
    var mayRollBack: Bool
    /// `UNIQUE (…)`, `PRIMARY KEY (…)`.
    var constraints: [String]
    /// `FOREIGN KEY (…) REFERENCES …`, only in the target.
    var foreignKeys: [String] = []
    /// The columns of each unique key, for upserts.
    var uniqueKeys: [[String]]
    var indexes: [IndexPlan]
    /// Whether rows are unique by something that upserts do not name: an expression, or a part of the table.
    var hasHiddenKeys = false
    /// The condition of the source's rows that belong.
    var condition: String?
    /// Whether the source's columns stand in another order.
    var isPermuted: Bool
    /// Whether the source has a column that the target lacks.
    var leavesColumn = false
    var rows: [RowPlan]

    /// Whether rows of a failed INSERT may stay. If a value is of the wrong type, SQLite 3.40 keeps the rows that have
    /// replaced others before, against its documentation.
    var keepsRowsOfFailures: Bool { isStrict && mayReplace }
}

struct ViewPlan {
    var name: String
    var columns: [String]
    var sql: String
}

/// A moving table that becomes the source of another one before all of its rows have come.
struct ChainPlan {
    var from: String
    var to: String
}

struct TriggerPlan {
    var name: String
    var sql: String
}

/// A statement with its values, and the way to compare its rows.
struct Command {
    enum Order {
        /// The statement orders its rows totally.
        case total
        /// The rows are compared in order if native SQLite scans one table by its rowid, or by an index that a scan of
        /// the union table follows; otherwise as a multiset.
        case scan
        case none
    }

    var sql: String
    var values: [SQLiteValue] = []
    /// Names for the values, if they are given by name.
    var names: [String] = []
    var order = Order.none
    /// Of several values that are equal by a collation or by number, SQLite chooses which one it shows.
    var isLoose = false

    var arguments: Arguments {
        var arguments = Arguments()
        if names.isEmpty {
            arguments.positional = values
        } else {
            arguments.named = zip(names, values).map { (name: $0, value: $1) }
        }
        return arguments
    }
}

enum Operation {
    /// Runs a statement on the connection that writes.
    case run(Command)
    /// Runs a statement that reads on another connection.
    case read(Command)
    /// Runs a statement on a second connection of Midstream that writes.
    case other(Command)
    /// Runs a statement on a connection that knows nothing of the migration.
    case stranger(Command)
    /// Runs statements in a block that commits, or rolls back.
    case block([Command], commits: Bool)
    /// For each row of a scan, up to `limit` rows, runs the statements in turn, with the row's first value as ?1.
    case loop(Command, [Command], limit: Int)
    /// Moves that many rows of each table, or as many as there is time for.
    case step(Int64?)
    /// Closes the databases and opens them again.
    case reopen
    /// Adds the migration of a table that moves on.
    case moveOn
    /// Moves all tables on to another file, whatever rows they have yet to get.
    case moveFile
}
