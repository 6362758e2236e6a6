import SQLiteConnection
import Testing

extension Connection {
    /// Runs VACUUM as a program would that happens to have the collation which keeps others from it.
    func vacuumAllTheSame() throws {
        let refusal = #expect(throws: SQLiteError.self) { try execute("VACUUM") }
        let collation = refusal?.message.split(separator: " ").last.map(String.init) ?? ""
        #expect(collation.hasSuffix("VACUUM_must_wait"))
        try createExactCollation(collation)
        try execute("VACUUM")
    }
}
