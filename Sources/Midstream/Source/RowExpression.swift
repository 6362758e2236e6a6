internal import SQLText
internal import SQLiteConnection

/// An expression by the application on a row of the source: a condition, or what a column is made of. It must be a single
/// expression, and depend on the row alone.
struct RowExpression {
    let connection: Connection
    let source: TableSchema
    /// `"schema"."S"`
    let from: String
    let text: String
    /// What the expression is, as in "the condition for table t".
    let what: String
    let table: String

    /// - Throws: ``MigrationError``, with the cause.
    func check() throws {
        do {
            // SQLite prepares the text with parentheses and without. So the text can neither close the parentheses nor be more than
            // an expression. It is on a line of its own, so that a comment in it cannot reach what follows.
            _ = try connection.prepare("SELECT 1 FROM \(from) WHERE (\(text)\n)")
            _ = try connection.prepare("SELECT 1 FROM \(from) WHERE \(text)\n")
        } catch {
            guard error.code.primary == .error else { throw error }
            throw MigrationError(
                .unequalTables,
                "\(what) does not fit source table \(source.name): \(error.message)",
                table: table,
                cause: error
            )
        }
        do {
            // SQLite knows what depends on the row alone: a partial index accepts nothing else. The index is not created.
            let schema = from.prefix { $0 != "." }
            let column = SQLIdentifier.quoted(source.columns[0].name)
            _ = try connection.prepare(
                "CREATE INDEX \(schema).midstream_expression ON \(SQLIdentifier.quoted(source.name))(\(column)) "
                    + "WHERE (\(text)\n)"
            )
        } catch {
            throw error.code.primary == .error ? dependence(error) : error
        }
        try checkDepth()
        let terms = terms
        if terms.hasTime { throw dependence(nil) }
        try checkRows(terms)
        if terms.hasLike {
            throw MigrationError(
                .unsupported,
                "\(what) contains LIKE, whose meaning PRAGMA case_sensitive_like changes for a connection: use GLOB, "
                    + "lower(…) GLOB or instr()",
                table: table
            )
        }
        if let word = source.misreadWords(in: text).first {
            throw MigrationError(
                .unequalTables,
                "\(what) has the word \(word.name), "
                    + (word.isColumn
                        ? "which is a column of source table \(source.name): write it in double quotes"
                        : "in double quotes, but source table \(source.name) has no such column: remove the double "
                            + "quotes"),
                table: table
            )
        }
        if let name = ExpressionShape.doubleQuotedNames(in: text).first(where: { !source.hasColumn($0) }) {
            throw MigrationError(
                .unequalTables,
                "\(what) names \"\(name)\", but source table \(source.name) has no such column: put text in single "
                    + "quotes",
                table: table
            )
        }
    }

    /// Checks that other statements can contain the expression. SQLite limits an expression's depth, and adds up the depths of
    /// nested queries. With a limit of 1000, the expression can have some 190 terms with OR between them.
    ///
    /// Source: <https://www.sqlite.org/limits.html#max_expr_depth>.
    private func checkDepth() throws {
        let inner = "SELECT (\(text)\n) AND \(Array(repeating: "1", count: 20).joined(separator: " + ")) FROM \(from)"
        do {
            _ = try connection.prepare((1..<5).reduce(inner) { query, _ in "SELECT (\(query))" })
        } catch {
            guard error.code.primary == .error else { throw error }
            throw MigrationError(
                .unsupported,
                "\(what) is nested too deeply to be part of other statements: \(error.message). Instead of many terms "
                    + "with OR between them, write IN with a list, or CASE",
                table: table,
                cause: error
            )
        }
    }

    /// Checks that no row has a word for the present in a column that the expression reads as a time.
    ///
    /// - Complexity: O(n) where there is such a column.
    func checkRows() throws { try checkRows(terms) }

    /// The terms of the expression and of the generated columns that it reads.
    private var terms: ConnectionTerms { ConnectionTerms(text, of: source, readingGenerated: true) }

    private func checkRows(_ terms: ConnectionTerms) throws {
        for column in terms.timeColumns.sorted() {
            let name = SQLIdentifier.quoted(column)
            let text = "lower(CAST(\(name) AS TEXT))"
            let present = "(\(text) GLOB 'now*' OR \(text) GLOB 'subsec*') AND julianday(\(name)) IS NOT NULL"
            guard try connection.fetchOne("SELECT 1 FROM \(from) WHERE \(present) LIMIT 1") != nil else { continue }
            throw MigrationError(
                .unsupported,
                "\(what) reads column \(column) as a time, but a row of source table \(source.name) has a word there "
                    + "that means the present, so its value changes all the time. Change that row, or leave the "
                    + "function out of the expression",
                table: table
            )
        }
    }

    private func dependence(_ cause: SQLiteError?) -> MigrationError {
        MigrationError(
            .unsupported,
            "\(what) must depend on the source's row alone: no subquery, parameter, current time or random value. Give "
                + "date functions only columns and numbers as times, and no modifier for the present or the local time "
                + "zone",
            table: table,
            cause: cause
        )
    }
}
