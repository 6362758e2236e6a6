internal import SQLiteC

/// A result code of SQLite, primary or extended, such as `19` (`SQLITE_CONSTRAINT`) or `2067`
/// (`SQLITE_CONSTRAINT_UNIQUE`).
///
/// A primary code matches each of its extended codes in a pattern:
///
///     switch error.code {
///     case .constraint: …      // any constraint
///     default: …
///     }
///
/// Source: <https://www.sqlite.org/rescode.html>.
public struct ResultCode: RawRepresentable, Hashable, Sendable {
    /// The number that SQLite uses.
    public let rawValue: Int32

    /// Wraps a number that SQLite returned.
    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// The primary code: the low byte of an extended one.
    public var primary: ResultCode {
        ResultCode(rawValue: rawValue & 0xff)
    }

    /// The number with which a callback fails. An error that carries a code of success is still an error. SQLite would
    /// take SQLITE_SCHEMA for its own error, and would prepare and run the statement once more.
    var failure: Int32 {
        switch primary.rawValue {
        case SQLITE_OK, SQLITE_ROW, SQLITE_DONE, SQLITE_SCHEMA: SQLITE_ERROR
        default: rawValue
        }
    }

    /// Whether `code` is `pattern`, or an extended code of the primary code `pattern`.
    public static func ~= (pattern: ResultCode, code: ResultCode) -> Bool {
        pattern.rawValue > 0xff ? pattern == code : pattern == code.primary
    }

    /// Success.
    public static let ok = ResultCode(rawValue: SQLITE_OK)
    /// A generic error: mostly SQL that does not compile.
    public static let error = ResultCode(rawValue: SQLITE_ERROR)
    /// A callback asked to stop.
    public static let abort = ResultCode(rawValue: SQLITE_ABORT)
    /// A transaction was rolled back under a statement, or the schema changed before it had opened all of its tables.
    public static let abortRollback = ResultCode(rawValue: SQLITE_ABORT | 2 << 8)
    /// The file is locked by another connection.
    public static let busy = ResultCode(rawValue: SQLITE_BUSY)
    /// A read transaction cannot become a write transaction, since the file has changed meanwhile.
    public static let busySnapshot = ResultCode(rawValue: SQLITE_BUSY | (2 << 8))
    /// A table is in use by a statement of the same connection.
    public static let locked = ResultCode(rawValue: SQLITE_LOCKED)
    /// Out of memory.
    public static let outOfMemory = ResultCode(rawValue: SQLITE_NOMEM)
    /// Access was not permitted.
    public static let permission = ResultCode(rawValue: SQLITE_PERM)
    /// The file cannot be written.
    public static let readOnly = ResultCode(rawValue: SQLITE_READONLY)
    /// A journal must be rolled back first, and the connection cannot do that because it only reads.
    public static let readOnlyRollback = ResultCode(rawValue: SQLITE_READONLY | 3 << 8)
    /// The operation was interrupted.
    public static let interrupt = ResultCode(rawValue: SQLITE_INTERRUPT)
    /// The operating system reported an error.
    public static let ioError = ResultCode(rawValue: SQLITE_IOERR)
    /// The file ends before what was to be read.
    public static let shortRead = ResultCode(rawValue: SQLITE_IOERR | 2 << 8)
    /// The file's content is damaged.
    public static let corrupt = ResultCode(rawValue: SQLITE_CORRUPT)
    /// The disk is full.
    public static let full = ResultCode(rawValue: SQLITE_FULL)
    /// The file cannot be opened.
    public static let cannotOpen = ResultCode(rawValue: SQLITE_CANTOPEN)
    /// The schema changed while a statement ran.
    public static let schema = ResultCode(rawValue: SQLITE_SCHEMA)
    /// A text or blob is longer than SQLite allows.
    public static let tooBig = ResultCode(rawValue: SQLITE_TOOBIG)
    /// A constraint failed.
    public static let constraint = ResultCode(rawValue: SQLITE_CONSTRAINT)
    /// A function has refused the change.
    public static let constraintFunction = ResultCode(rawValue: SQLITE_CONSTRAINT | 4 << 8)
    /// A trigger has refused the change by `RAISE`.
    public static let constraintTrigger = ResultCode(rawValue: SQLITE_CONSTRAINT | 7 << 8)
    /// A foreign key was violated.
    public static let constraintForeignKey = ResultCode(rawValue: SQLITE_CONSTRAINT | 3 << 8)
    /// A UNIQUE constraint was violated.
    public static let constraintUnique = ResultCode(rawValue: SQLITE_CONSTRAINT | 8 << 8)
    /// A PRIMARY KEY constraint was violated.
    public static let constraintPrimaryKey = ResultCode(rawValue: SQLITE_CONSTRAINT | 6 << 8)
    /// A CHECK constraint was violated.
    public static let constraintCheck = ResultCode(rawValue: SQLITE_CONSTRAINT | 1 << 8)
    /// A value is not of the type that its column has in a STRICT table (3.37).
    public static let constraintDatatype = ResultCode(rawValue: SQLITE_CONSTRAINT | 12 << 8)
    /// A value has a type that does not fit.
    public static let mismatch = ResultCode(rawValue: SQLITE_MISMATCH)
    /// The interface was used in a way that it does not allow.
    public static let misuse = ResultCode(rawValue: SQLITE_MISUSE)
    /// The authorizer refused an access.
    public static let authorization = ResultCode(rawValue: SQLITE_AUTH)
    /// A parameter or column index is out of range.
    public static let range = ResultCode(rawValue: SQLITE_RANGE)
    /// The file is not a database, or is encrypted with another key.
    public static let notADatabase = ResultCode(rawValue: SQLITE_NOTADB)
}

extension ResultCode: CustomStringConvertible {
    /// The number, and SQLite's words for it: `19 (constraint failed)`.
    public var description: String {
        "\(rawValue) (\(String(cString: sqlite3_errstr(rawValue))))"
    }
}
