import SQLiteConnection

/// One random database with what is done to it: data alone, so that it can be made smaller and run again.
struct OracleCase {
    var tables: [TablePlan]
    var views: [ViewPlan]
    var triggers: [TriggerPlan] = []
    /// Whether the moving tables' rows come from other tables of the target's own file.
    var isSameFile: Bool
    /// The keys of the target's file and the source's, by their numbers in `TestKeys`.
    var targetKey = 0
    var sourceKey = 0
    var enforcesForeignKeys = false
    /// Statements that each connection which writes begins with.
    var settings: [String] = []
    /// A table that moves on, and where to.
    var chain: ChainPlan?
    /// Whether steps build tables, or move their rows in batches.
    var isBuilt = false
    var operations: [Operation]
}

struct ColumnPlan {
    var name: String
    var type: String
    /// The text behind the type: collation, constraints, default, expression.
    var constraints: String
    var isGenerated = false
    /// What of the source it is made of; `nil` for the column of the same name.
    var origin: Origin?

    enum Origin {
        /// A column of the source of that name and type.
        case column(String, type: String)
        case expression(String)
        case value(SQLiteValue)
        /// Nothing: it gets its default.
        case absent
    }
}

struct IndexPlan {
    var name: String
    var isUnique: Bool
    /// From the parenthesis on.
    var terms: String
    /// Whether the source has it as well.
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
    /// The source's table; `nil` when the table does not move.
    var sourceName: String?
    /// A second table that has every other of the source's rows.
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
    /// `FOREIGN KEY (…) REFERENCES …`, in the target alone.
    var foreignKeys: [String] = []
    /// The columns of each unique key, for upserts.
    var uniqueKeys: [[String]]
    var indexes: [IndexPlan]
    /// Whether rows are unique by what upserts do not name: an expression, or in a part of the table.
    var hasHiddenKeys = false
    /// Which rows of the source belong.
    var condition: String?
    /// Whether the source's columns stand in another order.
    var isPermuted: Bool
    /// Whether the source has a column that the target lacks.
    var leavesColumn = false
    var rows: [RowPlan]

    /// Whether rows of a failed INSERT may stay: when a value is of the wrong type, SQLite 3.40 keeps those that have
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

/// A statement with its values, and how its rows are to be compared.
struct Command {
    enum Order {
        /// The statement orders its rows totally.
        case total
        /// In order when native SQLite scans one table by its rowid, or by an index that a scan of the union follows; else as a
        /// multiset.
        case scan
        case none
    }

    var sql: String
    var values: [SQLiteValue] = []
    /// Names for the values, when they are given by name.
    var names: [String] = []
    var order = Order.none
    /// Which of several values that are equal by a collation or by number is shown is SQLite's choice.
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
    /// Runs a statement on a second connection of Midstream's that writes.
    case other(Command)
    /// Runs a statement on a connection that knows nothing of the migration.
    case stranger(Command)
    /// Runs statements in a block that commits, or rolls back.
    case block([Command], commits: Bool)
    /// Runs the statements in turn for each row of a scan, with the row's first value as ?1, for so many rows.
    case loop(Command, [Command], limit: Int)
    /// Moves so many rows of each table, or as many as there is time for.
    case step(Int64?)
    /// Closes the databases and opens them again.
    case reopen
    /// Adds the migration of a table that moves on.
    case moveOn
    /// All tables move on to another file, whatever they have yet to get.
    case moveFile
}
