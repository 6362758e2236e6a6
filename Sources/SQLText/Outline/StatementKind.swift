/// What a statement does, as far as its first words tell.
public enum StatementKind: Hashable, Sendable {
    /// SELECT or VALUES, with or without WITH.
    case select
    /// INSERT or REPLACE.
    case insert
    /// UPDATE.
    case update
    /// DELETE.
    case delete
    /// CREATE TABLE.
    case createTable
    /// CREATE INDEX.
    case createIndex(unique: Bool)
    /// CREATE VIEW.
    case createView
    /// CREATE TRIGGER.
    case createTrigger
    /// CREATE VIRTUAL TABLE.
    case createVirtualTable
    /// DROP TABLE.
    case dropTable
    /// DROP INDEX.
    case dropIndex
    /// DROP VIEW.
    case dropView
    /// DROP TRIGGER.
    case dropTrigger
    /// ALTER TABLE.
    case alterTable
    /// PRAGMA.
    case pragma
    /// BEGIN.
    case begin
    /// COMMIT or END.
    case commit
    /// ROLLBACK of the transaction.
    case rollback
    /// ROLLBACK TO a savepoint.
    case rollbackTo
    /// SAVEPOINT.
    case savepoint
    /// RELEASE.
    case release
    /// ATTACH.
    case attach
    /// DETACH.
    case detach
    /// VACUUM.
    case vacuum
    /// REINDEX.
    case reindex
    /// ANALYZE.
    case analyze
    /// EXPLAIN or EXPLAIN QUERY PLAN; `StatementOutline.explained` is the kind of the explained statement.
    case explain
    /// No statement: only spaces, comments and semicolons.
    case empty
    /// Anything else.
    case other
}
