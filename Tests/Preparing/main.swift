import Dispatch
import Midstream
import MidstreamPreparing
import SQLiteC
import SQLiteConnection

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

// Runs statements that SQLite refuses on virtual tables, by plain C calls, on a table of which half has moved and on one that is whole, and
// compares the rows. It is a program of its own, since MidstreamPreparing changes what `sqlite3_prepare` is in a whole program.
//
//   PreparingCheck <folder>

/// The rows of all statements of a text, or the error.
func run(_ handle: OpaquePointer, _ sql: String, _ values: [String] = []) -> [String] {
    var results: [String] = []
    sql.withCString { text in
        var next: UnsafePointer<CChar>? = text
        while let start = next, start.pointee != 0 {
            var statement: OpaquePointer?
            guard sqlite3_prepare_v2(handle, start, -1, &statement, &next) == SQLITE_OK else {
                results.append("error: \(String(cString: sqlite3_errmsg(handle)))")
                return
            }
            guard let statement else { continue }
            for (offset, value) in values.enumerated() where offset < Int(sqlite3_bind_parameter_count(statement)) {
                sqlite3_bind_text(
                    statement,
                    Int32(offset + 1),
                    value,
                    -1,
                    unsafeBitCast(-1, to: sqlite3_destructor_type.self)
                )
            }
            var code = sqlite3_step(statement)
            while code == SQLITE_ROW {
                let columns = (0..<sqlite3_column_count(statement)).map { column in
                    let name = String(cString: sqlite3_column_name(statement, column))
                    let value = sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "NULL"
                    return "\(name)=\(value)"
                }
                results.append(columns.joined(separator: ", "))
                code = sqlite3_step(statement)
            }
            if code != SQLITE_DONE { results.append("error: \(String(cString: sqlite3_errmsg(handle)))") }
            sqlite3_finalize(statement)
            results.append("\(sqlite3_changes(handle)) changed, last \(sqlite3_last_insert_rowid(handle))")
        }
    }
    return results
}

/// Threads may prepare statements on one connection at the same time.
func prepareInThreads(_ handle: OpaquePointer) {
    nonisolated(unsafe) let handle = handle
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
        for number in 0..<200 {
            var statement: OpaquePointer?
            let sql = "INSERT INTO messages(id) VALUES (\(thread * 1000 + number)) ON CONFLICT DO NOTHING RETURNING id"
            sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
            sqlite3_finalize(statement)
        }
    }
}

func open(_ path: String) throws -> OpaquePointer {
    var handle: OpaquePointer?
    guard sqlite3_open(path, &handle) == SQLITE_OK, let handle else {
        throw SQLiteError(code: .cannotOpen, message: path)
    }
    sqlite3_busy_timeout(handle, 5000)
    return handle
}

let upserts: [(String, [String])] = [
    ("INSERT INTO messages(id, body) VALUES (70, 'new') ON CONFLICT(id) DO UPDATE SET body = excluded.body || old", []),
    ("INSERT INTO messages(id, sender, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", ["71", "none", "x"]),
    (
        "INSERT INTO messages(sender, body) VALUES ('s80', 'b') ON CONFLICT(sender) DO UPDATE SET old = excluded.body",
        []
    ),
]
let returning: [(String, [String])] = [
    ("INSERT INTO messages(sender, body) VALUES ('next', 'b') RETURNING id, sender", []),
    (
        """
        -- two statements
        INSERT INTO messages(id, body) VALUES (72, 'c') ON CONFLICT(id) DO UPDATE SET body = 'd' RETURNING *; SELECT count(*) FROM messages
        """, []
    ),
    (
        "UPDATE messages SET body = ? WHERE id > ? AND sender LIKE 's9%' RETURNING id AS number, body, ?",
        ["e", "60", "f"]
    ),
    ("UPDATE messages SET old = 'g' WHERE rowid IN (5, 65) RETURNING rowid", []),
    ("DELETE FROM messages WHERE id IN (6, 66) RETURNING *", []),
    (
        "WITH some(id) AS (SELECT id FROM messages WHERE id % 20 = 0) DELETE FROM messages WHERE id IN some RETURNING id",
        []
    ),
    (
        "UPDATE messages SET old = (SELECT max(length(body)) FROM messages) WHERE id IN (7, 8, 77, 78) RETURNING id, old",
        []
    ),
    (
        "DELETE FROM messages WHERE id BETWEEN :low AND :high RETURNING :low || id AS \"a;b\" -- ; returning",
        ["60", "62"]
    ),
    (
        " ;; -- first\n ; INSERT INTO messages(id) VALUES (73) ON CONFLICT(id) DO UPDATE SET old = 'h' RETURNING old;; SELECT 1",
        []
    ),
    ("UPDATE messages SET body = count(*) WHERE id IN (9, 99) RETURNING id", []),
    ("REPLACE INTO messages(id, sender) VALUES (75, 's76') RETURNING id, body", []),
]
let definitions = """
    CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT UNIQUE, body TEXT, old TEXT DEFAULT 'o');
    CREATE TABLE senders(id INTEGER PRIMARY KEY, name TEXT);
    INSERT INTO senders VALUES (7, 'Ann'), (77, 'Bob'), (90, 'Cay');
    """
let rows = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
    INSERT INTO messages(id, sender, body) SELECT i, 's' || i, 'b' || i FROM n;
    """

guard CommandLine.arguments.count == 2, Preparing.isInPlace else {
    print("usage: PreparingCheck <folder>; in place: \(Preparing.isInPlace)")
    exit(64)
}
let folder = CommandLine.arguments[1]
for (name, script) in [("native", definitions + rows), ("old", definitions + rows), ("new", definitions)] {
    let file = try open("\(folder)/\(name).db")
    _ = run(file, script)
    sqlite3_close(file)
}
let native = try open(folder + "/native.db")
let moving = try open(folder + "/new.db")
let database = try Database(path: folder + "/new.db")
try database.addMigration(source: .file(folder + "/old.db")) {
    if $0.name == "messages" { $0.sourceTable = "messages" }
}
try database.stepMigration(rows: 50)
try MigrationOverlay.install(on: moving)

var (agreeing, differing) = (0, 0)
let version = sqlite3_libversion_number()
for (sql, values) in (version >= 3_024_000 ? upserts : []) + (version >= 3_035_000 ? returning : []) {
    let (mine, theirs) = (run(moving, sql, values), run(native, sql, values))
    let whole = "SELECT * FROM messages ORDER BY id"
    if mine == theirs, run(moving, whole).dropLast() == run(native, whole).dropLast() {
        agreeing += 1
    } else {
        differing += 1
        print("\(sql)\n  native \(theirs)\n  moving \(mine)")
    }
}
// Where rows must move first, the statement is refused as before.
if version >= 3_035_000 {
    let refused = run(moving, "DELETE FROM messages WHERE random() IS NULL RETURNING id")
    if refused.count != 1 || !refused[0].contains("RETURNING is not available on virtual tables") {
        differing += 1
        print("not refused: \(refused)")
    }
    // A script is prepared statement by statement, in time that grows with its length.
    let script = (0..<2000).map { "INSERT INTO messages(body) VALUES ('from \($0)') RETURNING id;" }.joined(
        separator: "\n"
    )
    let ids = run(moving, script)
    if ids.count != 4000 || ids.contains(where: { $0.hasPrefix("error") }) {
        differing += 1
        print("of a script: \(ids.count) results")
    }
    prepareInThreads(moving)
}
sqlite3_close(moving)
sqlite3_close(native)
print("\(agreeing) statements agree, \(differing) differ")
exit(differing == 0 ? 0 : 1)
