internal import SQLText

/// The changes that bring a file to a declared schema.
///
///     print(try database.plan(for: schema))
///     // messages: rebuild, since column body is NOT NULL, column sent comes
///     //     CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, sent REAL)
///     //     CREATE INDEX messages_by_time ON messages(sent)
///     //     its rows move in steps
public struct SchemaPlan: Sendable {
    /// The changes, in the order in which they are made.
    public internal(set) var changes: [SchemaChange] = []
    /// Objects that the schema does not declare, and that stay because drops are not allowed: `table.column`, or
    /// another object's name.
    public internal(set) var undeclared: [String] = []

    /// The declared tables whose rows have moved to another file, also under a former name in
    /// ``SchemaOptions/renamedTables``. What is left of each table refuses writes, and stays as it is.
    public internal(set) var movedAway: [String] = []

    /// New columns whose mapping in ``SchemaOptions/columns`` is left out because it names a column that the table
    /// lacks: `table.column`.
    public internal(set) var unusedMappings: [String] = []

    /// Full-text tables that are created, and whose index has none of the rows of their content yet. Let each of them
    /// read these rows by `INSERT INTO f(f) VALUES ('rebuild')`.
    public internal(set) var unfilledTables: [String] = []

    /// The tables that are rebuilt, and how. A plan that has not been carried out leaves out tables for which only
    /// carrying it out will tell: those whose rows are still moving, or get another key.
    public internal(set) var rebuilt: [RebuiltTable] = []

    /// Whether the file has all that the schema declares, except for tables that have moved to another file.
    public var isEmpty: Bool { changes.isEmpty }
}

/// One change of a file's schema.
public struct SchemaChange: Sendable {
    /// The ways to make a change.
    public enum Way: Sendable, Hashable {
        /// The statements are run.
        case statements
        /// The table is rebuilt: see ``DatabaseAccess/rebuild(_:_:)``.
        case rebuild
    }

    /// The table, view, index or trigger that changes.
    public internal(set) var name: String
    /// How the change is made.
    public internal(set) var way: Way
    /// Why the change is made, in words.
    public internal(set) var summary: String
    /// The statements; for a rebuild, those of the new shape.
    public internal(set) var sql: [String]
    /// What columns of a rebuilt table are made of, by their names. A column that is not listed takes the values of the
    /// present column of its name.
    public var columns: [String: ColumnMapping] { rebuild?.columns ?? [:] }
    /// The columns of a rebuilt table that become NOT NULL, and for which nothing says what replaces NULL. Rows that
    /// have NULL in them do not fit: see ``SchemaOptions/refusedRows``.
    public var unfilledColumns: [String] { rebuild?.unfilledColumns ?? [] }
    /// The rebuild, if the change is one.
    var rebuild: Rebuilding?

    struct Rebuilding: Sendable {
        var schema: String
        var indexes: [String]
        var triggers: [String]
        var columns: [String: ColumnMapping]
        var unfilledColumns: [String]
        var refusedRows: RefusedRowPolicy
        var rowsCopiedAtOnce: Int

        func fill(_ table: inout TableRebuild) {
            table.schema = schema
            table.indexes = indexes
            table.triggers = triggers
            table.columns = columns
            table.unmatchedColumns = .ignored
            table.refusedRows = refusedRows
            table.rowsCopiedAtOnce = rowsCopiedAtOnce
        }
    }
}

extension SchemaPlan: CustomStringConvertible {
    /// Each change in a line, with its statements in lines below it.
    public var description: String {
        var lines: [String] = []
        for change in changes {
            lines.append("\(change.name): \(change.summary)")
            lines += change.sql.flatMap { $0.split(separator: "\n", omittingEmptySubsequences: false) }.map {
                "    " + $0
            }
            lines += change.columns.sorted { $0.key < $1.key }.map { "    \($0.key) is made of \($0.value.words)" }
            lines += change.unfilledColumns.map {
                "    rows with NULL in \($0) do not fit, unless the column is made of something else"
            }
            if change.way == .rebuild { lines += rebuilt.filter { $0.name == change.name }.map { "    " + $0.words } }
        }
        if !unusedMappings.isEmpty {
            lines.append(
                "gets its default, because its mapping names a column that the table does not have: "
                    + unusedMappings.joined(separator: ", ")
            )
        }
        for name in unfilledTables {
            let quoted = SQLIdentifier.quoted(name)
            lines.append(
                "\(name) does not index the rows of its content table yet, so searches miss them, and triggers that "
                    + "remove them damage it: fill it by INSERT INTO \(quoted)(\(quoted)) VALUES ('rebuild')"
            )
        }
        if !movedAway.isEmpty {
            lines.append("has moved to another file, and is left alone: " + movedAway.joined(separator: ", "))
        }
        if !undeclared.isEmpty { lines.append("not declared, and stays: " + undeclared.joined(separator: ", ")) }
        return lines.isEmpty ? "nothing to change" : lines.joined(separator: "\n")
    }
}

extension RebuiltTable {
    fileprivate var words: String {
        switch way {
        case .online: "its rows move in steps" + (reason.map { "; \($0)" } ?? "")
        case .atOnce: "its rows are copied in the transaction" + (reason.map { ", since \($0)" } ?? "")
        }
    }
}

extension ColumnMapping {
    /// The mapping in words, without values.
    fileprivate var words: String {
        switch self {
        case .column(let name): "column \(name)"
        case .expression(let sql): sql
        case .value: "a value"
        case .defaultValue: "its default"
        }
    }
}
