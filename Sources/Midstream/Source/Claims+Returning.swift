internal import SQLText
internal import SQLiteConnection

// Claims on a source that rows return to.
extension Claims {
    /// The conditions under which other tables take rows from the source of this one.
    func otherConditions(_ record: TableRecord) throws -> [String] {
        let claims =
            isSameFile
            ? try StateStore(connection: connection).load().tables.filter { $0.migration == migration.id }.map(claim)
            : try all()
        return claims.filter { $0.id != record.id && SQLIdentifier.equal($0.sourceTable, record.source) }
            .map { $0.condition ?? "1" }
    }
}
