internal import SQLText
internal import SQLiteConnection

// Statements that read moving tables.
extension Router {
    /// Whether a source is as the overlay knows it. If it is not, the union table reports that.
    private func isAsKnown(_ source: KnownSource) throws -> Bool {
        do {
            try source.confirm()
            return true
        } catch is MigrationError {
            return false
        }
    }

    /// Whether a table has moved, but a statement of other code keeps it in the overlay. The ledger, which `MoveSQL.wholeCount`
    /// reads, is then gone. On a connection where no other code runs, the overlay is up to date.
    private func isBorrowedAndOver(_ table: MovingTable) throws -> Bool {
        try overlay.statements.isBorrowed && table.state().lowerBound == nil
    }

    func read(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        if let count = WholeCount(outline), let table = movingTable(count.table), table.inner == nil,
            try !isBorrowedAndOver(table)
        {
            var route = route
            route.sql = table.sql.wholeCount(named: count.resultName)
            route.redirected = table.id
            return route
        }
        if let reference = outline.tableReferences.first, let table = movingTable(reference.name),
            let aggregates = SidewiseAggregates(outline, table), try isAsKnown(table.knownSource)
        {
            var route = route
            route.sql = aggregates.sql
            route.redirected = table.id
            return route
        }
        var transferred = route
        var route = try edited(route, outline, text) {
            // Only the view's own triggers carry out the write; the view's twin has none.
            if [.insert, .update, .delete].contains(outline.kind), let target = outline.target, target.schema == nil,
                isTwin(target)
            {
                $0.insertWord("main.", at: target.nameRange.lowerBound, of: outline)
            }
            try redirectReads(outline, text, &$0)
            rowIDNames(outline).nameColumns(&$0, in: text)
            if let transfer = try transfer(outline) { try apply(transfer, to: &$0, &transferred, outline) }
            if route.isEvaluatedOnce { _ = evaluateOnce(outline, text, &$0) }
        }
        (route.ignoresChecks, route.isOfMoment) = (transferred.ignoresChecks, transferred.isOfMoment)
        // A view that the statement names is a query of its own.
        let namesView = outline.tableReferences.contains { movingTable($0.name) == nil }
        let isOneTable = !namesView && outline.tableReferences.count == 1 && outline.scopes.count <= 2
        route.traits.isSimple =
            outline.kind == .select && outline.isComplete && isOneTable
            && !outline.functionCalls.contains { $0.name == "cast" }
            && !mayCompareColumns(outline)
        route.traits.isAggregated = isOneTable && outline.isOneAggregate
        return route
    }

    func rowIDNames(_ outline: StatementOutline) -> RowIDNames {
        RowIDNames(
            outline: outline,
            movingTable: { outline.isHiddenByCommonTable($0) ? nil : movingTable($0.name) },
            otherKey: overlay.rowIDColumn
        )
    }

    /// Whether a condition may compare one column with another. After `a = 1`, SQLite hands `b > a` to the union table as `b >
    /// 1`, and yet compares with the affinity of `a`.
    private func mayCompareColumns(_ outline: StatementOutline) -> Bool {
        guard let range = outline.whereClause else { return false }
        guard let table = outline.tableReferences.first.flatMap({ movingTable($0.name) }) else { return true }
        let names = outline.columnNames(in: range).map(table.target.ownName)
        // A name that is no column may be the name of a result that is a column.
        return Set(names).count < names.count || !names.allSatisfy(table.target.hasColumn)
    }

    /// Makes reads that spell `main.T` read the union table, and removes an INDEXED BY, since the union table lacks the index.
    func redirectReads(_ outline: StatementOutline, _ text: String, _ edits: inout SQLEdits) throws {
        let functions = DescribingFunctions(outline, in: text)
        if !functions.isEmpty {
            try functions.apply(to: &edits, in: outline, ofMain: overlay.byName.keys + overlay.strayNames())
        }
        for reference in outline.tableReferences where reference.context != .target {
            guard isOverlaid(reference.name) else {
                // SQLite may prepare the statement again when `temp` has a view of that name.
                if isAlone, reference.name.schema == nil, !reference.isTableFunction,
                    !outline.isHiddenByCommonTable(reference)
                {
                    edits.insertWord("main.", at: reference.name.nameRange.lowerBound, of: outline)
                }
                continue
            }
            if reference.isTableFunction {
                // A plain table is no function, but a virtual table may be.
                let name = reference.name
                if name.schema == nil { edits.insertWord("main.", at: name.nameRange.lowerBound, of: outline) }
                continue
            }
            if let schema = reference.name.schemaRange {
                edits.replace(schema, withWord: "temp", of: outline)
            } else if outline.isHiddenByCommonTable(reference) {
                continue
            }
            if let index = reference.indexedBy, mayLeaveOut(index, of: reference, outline) {
                // In a text that is not valid SQL, SQLite must find the same mistake.
                if outline.isComplete { edits.remove(index) } else { edits.replace(index, with: "NOT INDEXED") }
            }
        }
        for column in outline.qualifiedReferences where SQLIdentifier.equal(column.schema, "main") {
            guard let reference = outline.source(of: column), reference.context == .from, isOverlaid(reference.name)
            else { continue }
            edits.replace(column.schemaRange, withWord: "temp", of: outline)
        }
        try rowIDNames(outline).orderCompounds(&edits, in: text)
        ResultNames(outline: outline).keep(&edits, in: text)
    }

    /// Whether `INDEXED BY i` names an index that exists. If it does not, SQLite must report that there is no such index.
    private func mayLeaveOut(_ index: Range<Int>, of reference: TableReference, _ outline: StatementOutline) -> Bool {
        guard let name = outline.nameOfIndex(index) else { return true }
        return movingTable(reference.name)?.target.hasIndex(name) ?? false
    }
}
