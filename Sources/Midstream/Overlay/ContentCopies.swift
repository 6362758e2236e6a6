internal import SQLText
internal import SQLiteConnection

/// Copies of full-text tables in `temp`, for a block that reads.
///
/// A full-text table with `content=T` reads `T` in its own schema, where a moving table has only a part of its rows. A copy of
/// the full-text table in `temp`, made by the same text, finds the union table instead. Midstream copies the index block by
/// block, so the copy answers as the application's table would. A reader can have a copy, since a connection's `temp` is its own.
/// A copy lasts for one block, since the index may be another in the next snapshot.
extension Overlay {
    /// Makes copies of the full-text tables that a statement names itself, rather than by a view.
    ///
    /// - Returns: Whether there is a new copy, so that the statement must be routed again.
    /// - Complexity: O(n) in the bytes of the index.
    func copyContents(for statement: StatementOutline) throws -> Bool {
        guard connection.isInTransaction, statement.kind == .select else { return false }
        // A ROLLBACK TO may have removed a copy.
        let sql = "SELECT 1 FROM sqlite_temp_master WHERE name = ? COLLATE NOCASE"
        for name in watch.contents.copies where try connection.fetchOne(sql, [name]) == nil {
            watch.contents.forgetCopy(name)
        }
        let names = watch.contents.names(readBy: statement) { byName[$0].map { !$0.isHidden } ?? isTwin($0) }
        for name in names { try copy(name) }
        return !names.isEmpty
    }

    private func isTwin(_ name: String) -> Bool { twins.contains { SQLIdentifier.equal($0, name) } }

    private func copy(_ name: String) throws {
        let masters = "FROM main.sqlite_master WHERE type = 'table' AND name = ?1 COLLATE NOCASE"
        guard let definition = try connection.fetchOne("SELECT sql \(masters)", [name])?.get(0, as: String.self) else {
            return
        }
        let outline = SQLScript(definition).outline()
        guard let target = outline.target else { return }
        var edits = SQLEdits()
        edits.insertWord("temp.", at: target.nameRange.lowerBound, of: outline)
        let text = try edits.apply(to: definition)
        try unnoticed {
            try allowingWrites {
                try execute(text)
                watch.contents.noteCopy(name)
                let shadows: [String] = try connection.fetchAll(
                    "SELECT name FROM sqlite_temp_master WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1 "
                        + "AND sql NOT LIKE 'CREATE VIRTUAL%'",
                    [target.name + "_"]
                ).map { try $0.get(0) }
                for shadow in shadows.map(SQLIdentifier.quoted) {
                    try execute("DELETE FROM temp.\(shadow)")
                    try execute("INSERT INTO temp.\(shadow) SELECT * FROM main.\(shadow)")
                }
            }
        }
    }

    /// Drops the copies when the block that reads ends.
    func dropCopies() throws {
        guard watch.contents.hasCopies else { return }
        defer { watch.contents.forgetCopies() }
        try unnoticed {
            try allowingWrites {
                for name in watch.contents.copies {
                    try execute("DROP TABLE IF EXISTS temp.\(SQLIdentifier.quoted(name))")
                }
            }
        }
    }
}
