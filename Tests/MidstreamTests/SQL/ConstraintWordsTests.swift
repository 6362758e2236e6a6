import Testing

@testable import Midstream

@Suite struct ConstraintWordsTests {
    @Test(arguments: [
        ("CREATE TABLE t(a UNIQUE)", []),
        ("CREATE TABLE t(a UNIQUE ON CONFLICT REPLACE)", ["replace"]),
        // A NULL gets the column's default, which deletes no row.
        ("CREATE TABLE t(a NOT NULL ON CONFLICT REPLACE DEFAULT 1)", []),
        ("CREATE TABLE t(a UNIQUE ON CONFLICT IGNORE, b UNIQUE ON CONFLICT REPLACE)", ["others", "replace"]),
        ("CREATE TABLE t(a PRIMARY KEY ON CONFLICT ROLLBACK)", ["others", "rollback"]),
        ("CREATE TABLE t(a REFERENCES u DEFERRABLE INITIALLY DEFERRED)", ["deferred"]),
        ("CREATE TABLE t(a DEFAULT 'ON CONFLICT REPLACE' /* ON CONFLICT ROLLBACK */)", []),
    ])
    func aDefinitionTellsWhatItsConstraintsDo(_ sql: String, _ words: [String]) {
        let found = ConstraintWords(sql)
        #expect(found.hasReplace == words.contains("replace"))
        #expect(found.hasOthersThanReplace == words.contains("others"))
        #expect(found.hasRollback == words.contains("rollback"))
        #expect(found.hasDeferred == words.contains("deferred"))
    }
}
