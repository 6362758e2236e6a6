internal import SQLiteC

/// What SQLite may lack, by its version or by how it was built. Tests that need it are left out then.
public enum SQLiteFeature: String, CaseIterable, Sendable {
    case upsert, returning, strict, windows, aggregateFilter, generatedColumns, renameColumn, nullsOrder
    case materialized, distinctFrom, jsonFunctions, jsonOperators, updateFrom, rightJoin, targetAlias
    case limitedWrites, vacuumInto, iif

    /// A statement that SQLite prepares only where it has the feature.
    private var probe: String {
        switch self {
        case .upsert: "INSERT INTO t(a) VALUES (1) ON CONFLICT(a) DO UPDATE SET b = 1"
        case .returning: "DELETE FROM t RETURNING a"
        case .strict: "CREATE TABLE s(a ANY) STRICT"
        case .windows: "SELECT sum(a) OVER (ORDER BY b) FROM t"
        case .aggregateFilter: "SELECT count(*) FILTER (WHERE a) FROM t"
        case .generatedColumns: "CREATE TABLE s(a, b AS (a))"
        case .renameColumn: "ALTER TABLE t RENAME COLUMN b TO z"
        case .nullsOrder: "SELECT a FROM t ORDER BY b NULLS LAST"
        case .materialized: "WITH w AS MATERIALIZED (SELECT 1) SELECT * FROM w"
        case .distinctFrom: "SELECT a IS DISTINCT FROM b FROM t"
        case .jsonFunctions: "SELECT json('1')"
        case .jsonOperators: "SELECT b -> '$.a' FROM t"
        case .updateFrom: "UPDATE t SET b = x.b FROM t AS x WHERE x.a = t.a + 1"
        case .rightJoin: "SELECT 1 FROM t RIGHT JOIN t AS x ON x.a = t.b"
        case .targetAlias: "UPDATE t AS x SET b = 1"
        case .limitedWrites: "DELETE FROM t ORDER BY a LIMIT 1"
        case .vacuumInto: "VACUUM INTO 'x'"
        case .iif: "SELECT iif(1, 2, 3)"
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

    private static let available: Set<SQLiteFeature> = {
        var db: OpaquePointer?
        defer { sqlite3_close(db) }
        guard sqlite3_open(":memory:", &db) == SQLITE_OK,
            sqlite3_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY, b)", nil, nil, nil) == SQLITE_OK
        else { return [] }
        return Set(
            allCases.filter { feature in
                var statement: OpaquePointer?
                defer { sqlite3_finalize(statement) }
                return sqlite3_prepare_v2(db, feature.probe, -1, &statement, nil) == SQLITE_OK
            }
        )
    }()
}
