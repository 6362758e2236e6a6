/// The module with which a virtual table is created. It makes tables from the arguments of `CREATE VIRTUAL TABLE`.
open class VirtualTableModule {
    /// Makes a module.
    public init() {}

    /// Connects to a table.
    ///
    /// - Parameters:
    ///   - name: The table's name.
    ///   - arguments: The texts between the parentheses of `CREATE VIRTUAL TABLE … USING module(…)`.
    /// - Returns: A `CREATE TABLE` statement that declares the columns, and the table.
    open func connect(name: String, arguments: [String]) throws -> (declaration: String, table: VirtualTable) {
        throw SQLiteError(code: .misuse, message: "the module connects to no table")
    }
}

/// A virtual table of one connection.
open class VirtualTable {
    /// Makes a table.
    public init() {}

    /// Plans a query.
    open func bestIndex(_ info: IndexInfo) throws {}

    /// Opens a cursor.
    open func open() throws -> VirtualTableCursor {
        throw SQLiteError(code: .misuse, message: "the table has no cursor")
    }

    /// Refuses or makes a change: an INSERT, UPDATE or DELETE of the virtual table.
    open func update(_ arguments: ValueReferences) throws -> Int64? {
        throw SQLiteError(code: .readOnly, message: "the table cannot be written")
    }

    /// Called when a transaction, or a statement outside a transaction, writes the table for the first time, before it
    /// reads.
    open func begin() throws {}

    /// Whether ``update(_:)`` fails with a constraint's code before it has changed anything, so that SQLite can do what
    /// the statement's OR clause says. SQLite asks this once, when the table is connected.
    ///
    /// Source: <https://www.sqlite.org/c3ref/c_vtab_constraint_support.html>.
    open var reportsConstraints: Bool { false }

    /// Called before the table is dropped. If it throws, the table stays.
    open func destroy() throws {}

    /// Called before ALTER TABLE gives the table another name. If it throws, the table keeps its name.
    open func rename() throws {
        throw SQLiteError(code: .error, message: "the table cannot be renamed")
    }

    /// Called when the connection drops the table or lets it go.
    open func disconnect() {}
}

/// A scan of a virtual table.
open class VirtualTableCursor {
    /// Whether the scan is past its last row. Set by ``filter(plan:arguments:)`` and ``next()``.
    ///
    /// SQLite asks for this after each row, so it is exempt from Swift's checks of exclusive access.
    @exclusivity(unchecked) public final var isAtEnd = true

    /// Makes a cursor.
    public init() {}

    /// Begins a scan by the plan that the table has made, and goes to its first row.
    open func filter(plan: Int, arguments: ValueReferences) throws {}

    /// Goes to the next row.
    open func next() throws {}

    /// Gives a column of the current row.
    open func column(_ index: Int, to result: ResultContext) throws {}

    /// Gives the current row's rowid.
    open func rowID() throws -> Int64 { 0 }

    /// Called when SQLite closes the scan.
    open func close() {}
}
