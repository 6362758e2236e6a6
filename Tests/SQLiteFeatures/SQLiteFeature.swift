internal import SQLiteC

/// What the linked SQLite may lack, by its version or by how it was built. Tests that need it are left out then.
public enum SQLiteFeature: String, CaseIterable, Sendable {
    case upsert, returning, strict, windows, aggregateFilter, generatedColumns, renameColumn, nullsOrder
    case materialized, distinctFrom, jsonFunctions, jsonOperators, updateFrom, rightJoin, targetAlias
    case limitedWrites, vacuumInto, iif, dropColumn, pragmaFunctions
    // What older versions have, and do wrong.
    case indexesOnExpressions, largestIntegersInRealColumns, rowIDsBelowText, rowIDsEqualToText
    case checksOfStoredValues, partialIndexes, viewsApartFromCommonTables, rowValuesInQueries, rowIDsChosenBetweenOthers
    case writesOfKeyedTables, fullText5

    /// A statement that SQLite prepares only where it has the feature, or a script that fails where it does it wrong.
    private enum Probe {
        case prepares(String)
        case runs(String)
    }

    private var probe: Probe {
        switch self {
        case .upsert: .prepares("INSERT INTO t(a) VALUES (1) ON CONFLICT(a) DO UPDATE SET b = 1")
        case .returning: .prepares("DELETE FROM t RETURNING a")
        case .strict: .prepares("CREATE TABLE s(a ANY) STRICT")
        case .windows: .prepares("SELECT sum(a) OVER (ORDER BY b) FROM t")
        case .aggregateFilter: .prepares("SELECT count(*) FILTER (WHERE a) FROM t")
        case .generatedColumns: .prepares("CREATE TABLE s(a, b AS (a))")
        case .renameColumn: .prepares("ALTER TABLE t RENAME COLUMN b TO z")
        case .nullsOrder: .prepares("SELECT a FROM t ORDER BY b NULLS LAST")
        case .materialized: .prepares("WITH w AS MATERIALIZED (SELECT 1) SELECT * FROM w")
        case .distinctFrom: .prepares("SELECT a IS DISTINCT FROM b FROM t")
        case .jsonFunctions: .prepares("SELECT json('1')")
        case .jsonOperators: .prepares("SELECT b -> '$.a' FROM t")
        case .updateFrom: .prepares("UPDATE t SET b = x.b FROM t AS x WHERE x.a = t.a + 1")
        case .rightJoin: .prepares("SELECT 1 FROM t RIGHT JOIN t AS x ON x.a = t.b")
        case .targetAlias: .prepares("UPDATE t AS x SET b = 1")
        case .limitedWrites: .prepares("DELETE FROM t ORDER BY a LIMIT 1")
        case .vacuumInto: .prepares("VACUUM INTO 'x'")
        case .iif: .prepares("SELECT iif(1, 2, 3)")
        case .dropColumn: .prepares("ALTER TABLE t DROP COLUMN b")
        case .pragmaFunctions: .prepares("SELECT * FROM pragma_table_info('t')")
        case .indexesOnExpressions:
            // The index may get the value that it had before the column's affinity was applied.
            .runs(
                """
                CREATE TABLE e(a INT); CREATE INDEX ei ON e(lower(a)); INSERT INTO e VALUES (' 5');
                INSERT INTO holds SELECT count(*) FROM e WHERE lower(a) = '5'
                """
            )
        case .rowIDsBelowText:
            .runs(
                """
                INSERT INTO t VALUES (1, 2);
                INSERT INTO holds SELECT count(*) FROM (SELECT a FROM t WHERE a < 'x' ORDER BY a DESC LIMIT 1)
                """
            )
        case .rowIDsEqualToText:
            // A rowid that was found by a text may have the text for its value.
            .runs("INSERT INTO t VALUES (5, 1); INSERT INTO holds SELECT quote(a) = '5' FROM t WHERE a = ' 5'")
        case .partialIndexes:
            // `b IS NOT 5` may be taken to mean that b is not NULL.
            .runs(
                """
                CREATE TABLE p(a, b); CREATE INDEX pi ON p(a) WHERE b IS NOT NULL; INSERT INTO p VALUES (1, NULL);
                INSERT INTO holds SELECT count(*) FROM p WHERE a = 1 AND b IS NOT 5
                """
            )
        case .viewsApartFromCommonTables:
            // A common table may take the place of a table that a view names.
            .runs(
                """
                CREATE VIEW v AS SELECT b FROM t; INSERT INTO t VALUES (1, 2);
                INSERT INTO holds WITH t(b) AS (SELECT 0) SELECT b FROM v
                """
            )
        case .writesOfKeyedTables:
            // All rows of a table without rowids may be deleted without being counted, and with LIMIT wrongly.
            .runs(
                """
                CREATE TABLE k(a PRIMARY KEY) WITHOUT ROWID; INSERT INTO k VALUES (1), (2), (3); DELETE FROM k;
                INSERT INTO holds SELECT changes() = 3
                """
            )
        case .rowValuesInQueries:
            .runs(
                """
                CREATE TABLE v(a INTEGER PRIMARY KEY, b REAL, c);
                SELECT 1 FROM v AS x JOIN v AS y ON x.b = y.a WHERE (y.a, x.c) IN (SELECT a, b FROM t)
                """
            )
        case .rowIDsChosenBetweenOthers:
            // The rows behind the one with NULL may be put out of order, and be lost.
            .runs(
                """
                INSERT INTO t VALUES (2, 1), (NULL, 2), (31, 3), (11, 4), (30, 5);
                INSERT INTO holds SELECT count(*) FROM t WHERE a = 11
                """
            )
        case .fullText5: .runs("CREATE VIRTUAL TABLE f USING fts5(x)")
        case .checksOfStoredValues:
            // A CHECK may see the value as it was before the column's affinity was applied.
            .runs("CREATE TABLE c(a REAL CHECK (length(a) > 2)); INSERT INTO c VALUES (12)")
        case .largestIntegersInRealColumns:
            .runs(
                """
                CREATE TABLE r(a REAL); CREATE INDEX ri ON r(a); INSERT INTO r VALUES (9223372036854775807);
                INSERT INTO holds SELECT count(*) FROM r WHERE a = 9223372036854775807.0
                """
            )
        }
    }

    /// Whether the linked SQLite has it.
    public var isAvailable: Bool { Self.available.contains(self) }

    /// Why a test that needs it is left out.
    public var reason: String { "SQLite \(String(cString: sqlite3_libversion())) lacks \(rawValue)" }

    /// The elements, or none of them where SQLite lacks the feature.
    public func ifAvailable<Element>(_ elements: [Element]) -> [Element] { isAvailable ? elements : [] }

    /// All that the linked SQLite lacks.
    public static var missing: [SQLiteFeature] { allCases.filter { !$0.isAvailable } }

    private static let available: Set<SQLiteFeature> = Set(allCases.filter { holds($0.probe) })

    private static func holds(_ probe: Probe) -> Bool {
        var db: OpaquePointer?
        defer { sqlite3_close(db) }
        let schema = "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE holds(x CHECK (x))"
        guard sqlite3_open(":memory:", &db) == SQLITE_OK, sqlite3_exec(db, schema, nil, nil, nil) == SQLITE_OK else {
            return false
        }
        switch probe {
        case .runs(let script): return sqlite3_exec(db, script, nil, nil, nil) == SQLITE_OK
        case .prepares(let sql):
            var statement: OpaquePointer?
            defer { sqlite3_finalize(statement) }
            return sqlite3_prepare_v2(db, sql, -1, &statement, nil) == SQLITE_OK
        }
    }
}
