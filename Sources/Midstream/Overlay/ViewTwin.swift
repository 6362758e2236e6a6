internal import SQLText

/// The TEMP view that takes the place of a view of `main`, so that the names in the view's text resolve to the union tables.
struct ViewTwin {
    let sql: String
    /// Distinguishes a twin from a TEMP view of the application that now has the twin's name.
    static let mark = "/* midstream_twin */"
    /// The view's own text.
    let outline: StatementOutline

    /// Makes the twin of a view; `nil` if the view mentions none of the given tables and views.
    ///
    /// - Parameter names: The tables and views that a twin must find in `temp`, in lower case.
    /// - Parameter others: Everything else in `main`, in lower case. The twin must not find it in `temp` first.
    /// - Parameter described: The tables and views that functions such as `pragma_table_info` must describe as they are in
    ///   `main`.
    /// - Parameter tables: The moving tables by their names in lower case.
    /// - Parameter rowIDColumn: Gives the column that is the rowid of a table that does not move.
    init?(
        sql: String,
        mentioning names: Set<String>,
        others: Set<String> = [],
        described: some Sequence<String>,
        tables: [String: MovingTable],
        rowIDColumn: @escaping (ObjectName) throws -> String? = { _ in nil }
    ) throws {
        let outline = SQLScript(sql).first { $0.kind == .createView }
        guard let outline, let target = outline.target else { return nil }
        let references = outline.tableReferences.filter {
            names.contains(SQLIdentifier.lowercased($0.name.name))
                && ($0.name.schema.map { SQLIdentifier.equal($0, "main") } ?? true)
        }
        let functions = DescribingFunctions(outline, in: sql)
        guard !references.isEmpty || !functions.isEmpty && functions.canBeEdited else { return nil }
        var edits = SQLEdits()
        edits.replace(
            outline.range.lowerBound..<target.range.upperBound,
            with: "CREATE TEMP VIEW \(SQLIdentifier.quoted(target.name)) \(Self.mark)"
        )
        for reference in references {
            if let schema = reference.name.schemaRange { edits.replace(schema, withWord: "temp", of: outline) }
            if let index = reference.indexedBy { edits.remove(index) }
        }
        for reference in outline.tableReferences
        where reference.name.schema == nil && others.contains(SQLIdentifier.lowercased(reference.name.name))
            && !outline.isHiddenByCommonTable(reference)
        {
            edits.insertWord("main.", at: reference.name.nameRange.lowerBound, of: outline)
        }
        if functions.canBeEdited { functions.apply(to: &edits, in: outline, ofMain: described) }
        for reference in outline.qualifiedReferences
        where SQLIdentifier.equal(reference.schema, "main") && names.contains(SQLIdentifier.lowercased(reference.table))
        {
            edits.replace(reference.schemaRange, withWord: "temp", of: outline)
        }
        let rowIDNames = RowIDNames(
            outline: outline,
            movingTable: {
                outline.isHiddenByCommonTable($0) ? nil : tables[SQLIdentifier.lowercased($0.name.name)]
            },
            otherKey: rowIDColumn
        )
        try rowIDNames.orderCompounds(&edits, in: sql)
        if outline.columns == nil { rowIDNames.nameColumns(&edits, in: sql) }
        ResultNames(outline: outline).keep(&edits, in: sql)
        guard let text = try? edits.apply(to: sql) else { return nil }
        self.sql = text
        self.outline = outline
    }
}
