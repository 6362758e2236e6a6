import SQLText

/// Where a script stops to be set-up.
enum LogicStart {
    /// The position of the first record that runs while tables move. What is before it runs natively, in the source.
    static func position(in script: LogicScript, _ native: NativeRun, isEarly: Bool) -> Int {
        let records = script.records
        let firstUse = records.firstIndex { !isSetUp($0) } ?? records.count
        let firstQuery = records.firstIndex { $0.isQuery } ?? firstUse
        var position = isEarly ? min(firstUse, firstQuery) : firstQuery
        // What is not in the file would be lost.
        if let temporary = records[..<position].firstIndex(where: { belongsToConnection($0) }) { position = temporary }
        while position > 0, native.isInTransaction[position - 1] { position -= 1 }
        return position
    }

    /// Whether a record creates or fills a table, and does nothing else.
    ///
    /// - Parameter drops: Whether dropping one is part of it, as where scripts make a table anew.
    static func isSetUp(_ record: LogicRecord, drops: Bool = false) -> Bool {
        guard case .success = record.expectation else { return false }
        return SQLScript(record.sql).allSatisfy { outline in
            switch outline.kind {
            case .createTable, .createIndex, .insert, .empty: !outline.isTemporary
            case .dropTable: drops
            default: false
            }
        }
    }

    /// Whether a record leaves something in its connection: TEMP objects, attached files, settings.
    static func belongsToConnection(_ record: LogicRecord) -> Bool {
        SQLScript(record.sql).contains { outline in
            outline.isTemporary || outline.kind == .attach || outline.kind == .detach || outline.kind == .pragma
        }
    }
}
