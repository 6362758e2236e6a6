import Midstream
import SQLiteConnection
import Testing

/// Handles on parts of values.
@Suite struct BlobTests {
    private static let large = 300_000

    private func pair(_ moved: Int64) throws -> Pair {
        try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB, n)",
            rows:
                "INSERT INTO t VALUES (1, zeroblob(\(Self.large)), 1), (2, x'0102030405', 2), (3, 'text', 3), (4, NULL, 4)",
            tables: ["t"],
            moved: moved
        )
    }

    /// When the first rows move, nothing is known of their sizes.
    @Test func rowsOfMegabytesDoNotMoveAllAtOnce() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)")
        for id in 1...120 as ClosedRange<Int64> {
            try old.execute("INSERT INTO t VALUES (?, randomblob(1 << 20))", [id])
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        while try database.fetchValue(Int.self, "SELECT count(*) FROM main.t") == 0 { try database.stepMigration() }
        #expect(Files.size(folder.file("new.db-wal")) < 90 << 20)
    }

    @Test(arguments: [0, 1, 4] as [Int64]) func partsAreReadAndWrittenWhileTheTableMoves(_ moved: Int64) throws {
        let pair = try pair(moved)
        let read: (Int64) throws -> [UInt8] = { id in
            try pair.database.read {
                try $0.withBlob(table: "t", column: "x", rowID: id) { try $0.read(count: 3, at: 1) }
            }
        }
        #expect(try read(1) == [0, 0, 0])
        #expect(try read(2) == [2, 3, 4])
        #expect(try read(3) == Array("ext".utf8))
        let changes = try pair.database.write { db in
            try db.execute("UPDATE t SET n = 9 WHERE id = 3")
            for id in [1, 2] as [Int64] {
                try db.withBlob(table: "t", column: "x", rowID: id, isWritable: true) { blob in
                    try blob.write([7, 8], at: blob.count - 2)
                    if id == 1 {
                        try blob.reopen(rowID: 1)
                        #expect(blob.count == Self.large)
                    }
                }
            }
            return db.changes
        }
        #expect(changes == 1)
        #expect(
            texts(try pair.database.fetchAll("SELECT hex(substr(x, -3)) FROM t WHERE id < 3")) == ["000708", "030708"]
        )
        try pair.finish()
        #expect(
            texts(try pair.database.fetchAll("SELECT hex(substr(x, -3)), n FROM t WHERE id < 4")) == [
                "000708|1", "030708|2", "657874|9",
            ]
        )
    }

    @Test(arguments: [0, 4] as [Int64]) func whatHasNoBytesIsAnErrorAsNatively(_ moved: Int64) throws {
        let pair = try pair(moved)
        for (column, id) in [("x", 4), ("n", 1), ("x", 99), ("nowhere", 1)] as [(String, Int64)] {
            let native = #expect(throws: SQLiteError.self) {
                try pair.native.withBlob(table: "t", column: column, rowID: id) { _ in }
            }
            let error = #expect(throws: SQLiteError.self) {
                try pair.database.read { try $0.withBlob(table: "t", column: column, rowID: id) { _ in } }
            }
            #expect(error?.message == native?.message && error?.code == native?.code)
        }
        try pair.database.read { db in
            try db.withBlob(table: "t", column: "x", rowID: 2) { blob in
                #expect(throws: SQLiteError.self) { try blob.read(count: 6, at: 0) }
                #expect(throws: SQLiteError.self) { try blob.read(count: 1, at: -1) }
                #expect(throws: SQLiteError.self) { try blob.write([1], at: 0) }
                let nothing = try blob.read(count: 0, at: 5)
                #expect(nothing == [])
            }
        }
        // A handle that the closure has kept is closed.
        var kept: Blob?
        try pair.native.withBlob(table: "t", column: "x", rowID: 2) { kept = $0 }
        #expect(throws: SQLiteError.self) { try kept?.read(count: 1, at: 0) }
    }

    @Test func aRowThatAStatementChangesExpiresItsHandle() throws {
        let pair = try pair(0)
        let error = #expect(throws: SQLiteError.self) {
            try pair.database.write { db in
                try db.withBlob(table: "t", column: "x", rowID: 2, isWritable: true) { blob in
                    try db.execute("UPDATE t SET x = 'other' WHERE id = 2")
                    try blob.write([1], at: 0)
                }
            }
        }
        #expect(error?.code == .abort)
        #expect(texts(try pair.database.fetchAll("SELECT hex(x) FROM t WHERE id = 2")) == ["0102030405"])
    }

    /// It does not matter whether the handle reads the row in the source, or the row has come over with the handle.
    @Test(
        arguments: [0, 2] as [Int64],
        ["UPDATE t SET x = 'other' WHERE id = 2", "DELETE FROM t WHERE id = 2", "DELETE FROM t"]
    )
    func aHandleThatReadsExpiresAsNatively(_ moved: Int64, _ statement: String) throws {
        let pair = try pair(moved)
        func read(_ run: (String) throws -> Void, _ blob: Blob) throws -> SQLiteError? {
            #expect(try blob.read(count: 2, at: 1) == [2, 3])
            try run(statement)
            return #expect(throws: SQLiteError.self) { try blob.read(count: 2, at: 1) }
        }
        let native = try pair.native.withBlob(table: "t", column: "x", rowID: 2) { blob in
            try read({ try pair.native.execute($0) }, blob)
        }
        let error = try pair.database.write { db in
            try db.withBlob(table: "t", column: "x", rowID: 2) { blob in try read({ try db.execute($0) }, blob) }
        }
        #expect(error?.code == .abort && error?.code == native?.code)
        #expect(error?.message == native?.message)
    }

    /// Rows that a statement needs in one place come over before the statement changes a row.
    @Test(arguments: [true, false]) func aHandleExpiresAsNativelyWhereTheRestIsMoved(_ isSame: Bool) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB, n); CREATE UNIQUE INDEX u ON t(n) WHERE n > 0",
            rows: "INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
            tables: ["t"],
            moved: 1
        )
        let update = "UPDATE t SET x = 'changed' WHERE id = \(isSame ? 2 : 3)"
        func go(_ blob: Blob, _ run: (String) throws -> Void) throws -> String {
            try run(update)
            do { return "\(try blob.read(count: 3, at: 0))" } catch let error as SQLiteError { return "\(error.code)" }
        }
        let native = try pair.native.withBlob(table: "t", column: "x", rowID: 2) { blob in
            try go(blob) { try pair.native.execute($0) }
        }
        let found = try pair.database.write { db in
            try db.withBlob(table: "t", column: "x", rowID: 2) { blob in try go(blob) { try db.execute($0) } }
        }
        #expect(found == native)
    }

    /// The application sees nothing of a promotion.
    @Test func aHandleThatReadsGoesWithItsRow() throws {
        let pair = try pair(0)
        try pair.database.write { db in
            try db.withBlob(table: "t", column: "x", rowID: 2) { blob in
                try db.execute("UPDATE t SET n = 7 WHERE id = 3; INSERT OR IGNORE INTO t VALUES (2, 'none', 0)")
                #expect(try blob.read(count: 5, at: 0) == [1, 2, 3, 4, 5])
                #expect(throws: SQLiteError.self) { try blob.write([1], at: 0) }
            }
        }
    }

    /// Without its row, SQLite's handle would read the next row.
    @Test(
        arguments: [
            ["INSERT INTO t VALUES (60, 'new', 1), (3, 'new', 1)"], ["UPDATE t SET n = 2, x = 'new' WHERE id = 3"],
            ["SAVEPOINT s", "INSERT OR IGNORE INTO t VALUES (3, 'new', 1)", "ROLLBACK TO s"],
            ["SAVEPOINT s", "UPDATE t SET x = 'new' WHERE id = 3", "ROLLBACK TO s"],
            ["SAVEPOINT s", "UPDATE t SET n = 50 WHERE id = 3", "open", "ROLLBACK TO s"],
            [
                "SAVEPOINT s", "UPDATE t SET n = 50 WHERE id = 3", "open", "ROLLBACK TO s",
                "UPDATE t SET n = 60 WHERE id = 3",
            ],
            [
                "SAVEPOINT s", "UPDATE t SET n = 50 WHERE id = 3", "open", "UPDATE t SET n = 40 WHERE id = 3",
                "ROLLBACK TO s",
            ],
        ],
        [false, true]
    )
    func aHandleFindsItsRowWhenItsPromotionIsUndone(_ script: [String], _ isWritable: Bool) throws {
        for first in ["UPDATE t SET n = n + 20 WHERE id IN (2, 5)", "SELECT 1"] {
            let pair = try Pair(
                schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB, n UNIQUE)",
                rows:
                    "INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3), (5, 'five', 5), (6, 'six', 6)",
                tables: ["t"]
            )
            try pair.native.execute(first)
            try pair.database.execute(first)
            let native = try pair.native.transaction {
                try Self.outcome(script, isWritable, { try pair.native.execute($0) }) {
                    try pair.native.withBlob(table: "t", column: "x", rowID: 3, isWritable: isWritable, $0)
                }
            }
            let found = try pair.database.write { db in
                try Self.outcome(script, isWritable, { try db.execute($0) }) {
                    try db.withBlob(table: "t", column: "x", rowID: 3, isWritable: isWritable, $0)
                }
            }
            #expect(found == native)
            let all = "SELECT id, hex(x), n FROM t ORDER BY id"
            #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
        }
    }

    /// What a handle does after each of some statements. The handle is opened at first, or where "open" stands.
    private static func outcome(
        _ script: [String],
        _ isWritable: Bool,
        _ run: @escaping (String) throws -> Void,
        _ open: ((Blob) throws -> Void) throws -> Void
    ) throws -> [String] {
        var outcome: [String] = []
        let start = script.firstIndex(of: "open")
        for statement in script[..<(start ?? 0)] { try run(statement) }
        do {
            try open { blob in
                for statement in script[(start.map { $0 + 1 } ?? 0)...] {
                    do { try run(statement) } catch let error as SQLiteError { outcome.append(error.message) }
                    do {
                        outcome.append("\(try blob.read(count: 3, at: 0))")
                        if isWritable { try blob.write([0x61], at: 0) }
                    } catch let error as SQLiteError { outcome.append("\(error.code.primary)") }
                }
            }
        } catch is SQLiteError {
            // Closing a handle that may write reports the error again that the block has been told.
        }
        return outcome
    }

    @Test(arguments: [0, 1, 4] as [Int64], [true, false]) func aHandleGoesOnToAnyRow(_ moved: Int64, _ isWritable: Bool)
        throws
    {
        let pair = try pair(moved)
        func go(_ blob: Blob, _ run: (String) throws -> Void) throws -> [[UInt8]] {
            var values: [[UInt8]] = []
            for id in [2, 3, 1, 2] as [Int64] {
                try blob.reopen(rowID: id)
                #expect(blob.rowID == id)
                if isWritable { try blob.write([UInt8(id) + 0x60], at: 1) }
                values.append(try blob.read(count: 3, at: 0))
            }
            try run("UPDATE t SET x = 'changed' WHERE id = 3")
            try blob.reopen(rowID: 3)
            values.append(try blob.read(count: blob.count, at: 0))
            try blob.reopen(rowID: 1)
            try run("UPDATE t SET x = 'again' WHERE id = 1")
            #expect(throws: SQLiteError.self) { try blob.read(count: 1, at: 0) }
            return values
        }
        let native = try pair.native.transaction {
            try pair.native.withBlob(table: "t", column: "x", rowID: 1, isWritable: isWritable) { blob in
                try go(blob) { try pair.native.execute($0) }
            }
        }
        let values = try pair.database.write { db in
            try db.withBlob(table: "t", column: "x", rowID: 1, isWritable: isWritable) { blob in
                try go(blob) { try db.execute($0) }
            }
        }
        #expect(values == native)
        let all = "SELECT id, hex(x), n FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test(arguments: [0, 1, 4] as [Int64], [2, 3, 1, 4] as [Int64]) func aHandleThatHasExpiredIsNotReopened(
        _ moved: Int64,
        _ next: Int64
    ) throws {
        let pair = try pair(moved)
        func go(_ blob: Blob, _ run: (String) throws -> Void) throws -> SQLiteError? {
            try run("UPDATE t SET x = 'new' WHERE id = 2")
            #expect(throws: SQLiteError.self) { try blob.read(count: 1, at: 0) }
            return #expect(throws: SQLiteError.self) { try blob.reopen(rowID: next) }
        }
        let native = try pair.native.withBlob(table: "t", column: "x", rowID: 2) { blob in
            try go(blob) { try pair.native.execute($0) }
        }
        let error = try pair.database.write { db in
            try db.withBlob(table: "t", column: "x", rowID: 2) { blob in try go(blob) { try db.execute($0) } }
        }
        #expect(error?.code == .abort && native?.code == .abort)
    }

    @Test(arguments: [0, 4] as [Int64], [4, 99] as [Int64]) func aHandleThatFindsNoRowFailsAsNatively(
        _ moved: Int64,
        _ id: Int64
    ) throws {
        let pair = try pair(moved)
        func go(_ blob: Blob) -> SQLiteError? {
            let error = #expect(throws: SQLiteError.self) { try blob.reopen(rowID: id) }
            #expect(throws: SQLiteError.self) { try blob.read(count: 1, at: 0) }
            return error
        }
        let native = try pair.native.withBlob(table: "t", column: "x", rowID: 1, go)
        let error = try pair.database.read { try $0.withBlob(table: "t", column: "x", rowID: 1, go) }
        #expect(error?.code == native?.code && error?.message == native?.message)
    }

    /// What a handle writes outside transactions is committed with the block, or not at all.
    @Test func outsideTransactionsItIsOneOfItsOwn() throws {
        let pair = try pair(0)
        try pair.database.withoutTransaction { db in
            try db.withBlob(table: "t", column: "x", rowID: 2, isWritable: true) { try $0.write([9], at: 0) }
            #expect(!db.isInTransaction)
            #expect(throws: SQLiteError.self) {
                try db.withBlob(table: "t", column: "x", rowID: 2, isWritable: true) { blob in
                    try blob.write([8], at: 1)
                    try blob.write([8], at: 99)
                }
            }
            #expect(!db.isInTransaction)
        }
        #expect(texts(try pair.database.fetchAll("SELECT hex(x) FROM t WHERE id = 2")) == ["0902030405"])
    }

    /// SQLite fires no trigger when a handle writes, so the write would be lost.
    @Test(arguments: [true, false]) func aSourceIsNotWrittenByParts(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file(isSameFile ? "new.db" : "old.db"), folder.file("new.db"))
        let plain = try Connection(path: old)
        try plain.execute("CREATE TABLE o(id INTEGER PRIMARY KEY, x BLOB)")
        try plain.execute("INSERT INTO o VALUES (1, x'0102030405'), (2, x'0102030405')")
        plain.close()
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)")
        try database.addMigration(source: isSameFile ? .sameDatabase : .file(old)) { table in
            if table.name == "t" { table.sourceTable = "o" }
        }
        try database.stepMigration(rows: 1)
        let other = try Database(path: old)
        for id in [1, 2] as [Int64] {
            let error = #expect(throws: SQLiteError.self) {
                try other.write {
                    try $0.withBlob(table: "o", column: "x", rowID: id, isWritable: true) { try $0.write([9], at: 0) }
                }
            }
            #expect(error?.message.contains("write it there") == true)
            #expect(
                try other.read { try $0.withBlob(table: "o", column: "x", rowID: id) { try $0.read(count: 1, at: 0) } }
                    == [1]
            )
        }
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT hex(x) FROM t")) == ["0102030405", "0102030405"])
    }

    /// A handle that reads keeps no transaction open. If the transaction ends meanwhile, nothing is lost.
    @Test(
        arguments: [0, 4],
        ["COMMIT", "ROLLBACK", "COMMIT; BEGIN; UPDATE t SET n = 50 WHERE id = 4; ROLLBACK", "COMMIT; SELECT 1"]
    )
    func aTransactionMayBeEndedWhileAPartIsRead(_ moved: Int64, _ script: String) throws {
        let pair = try pair(moved)
        struct Own: Error {}
        for isRefused in [false, true] {
            func run(
                _ execute: @escaping (String) throws -> Void,
                _ withBlob: ((Blob) throws -> Void) throws -> Void
            ) throws {
                try execute("BEGIN")
                try execute("UPDATE t SET n = n + 10 WHERE id IN (1, 3)")
                do {
                    try withBlob { _ in
                        try execute(script)
                        if isRefused { throw Own() }
                    }
                } catch is Own {}
                try execute("UPDATE t SET n = n + 100 WHERE id = 2")
            }
            try run({ try pair.native.execute(script: $0) }) {
                try pair.native.withBlob(table: "t", column: "x", rowID: 2, $0)
            }
            try pair.database.withoutTransaction { db in
                try run({ try db.execute($0) }) { try db.withBlob(table: "t", column: "x", rowID: 2, $0) }
            }
            let all = "SELECT id, n FROM t ORDER BY id"
            #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
        }
    }

    /// The same holds in the body of a loop, whose own statement ends after the transaction.
    @Test(arguments: ["COMMIT", "ROLLBACK"]) func aTransactionMayBeEndedInALoopWhileAPartIsRead(_ sql: String) throws {
        let pair = try pair(1)
        try pair.database.withoutTransaction { db in
            try db.execute("BEGIN; UPDATE t SET n = 90 WHERE id = 3")
            try db.withBlob(table: "t", column: "x", rowID: 2) { _ in
                try db.forEachRow("SELECT 1") { _ in
                    try db.execute(sql)
                    return true
                }
            }
        }
        #expect(
            try pair.database.fetchValue(Int.self, "SELECT n = 90 FROM t WHERE id = 3") == (sql == "COMMIT" ? 1 : 0)
        )
    }

    /// A part may be read while another one is read, in a transaction of its own.
    @Test func aTransactionMayBeEndedBeforeAnotherPartIsRead() throws {
        let pair = try pair(1)
        try pair.database.withoutTransaction { db in
            try db.execute("BEGIN; UPDATE t SET n = 90 WHERE id = 3")
            try db.withBlob(table: "t", column: "x", rowID: 2) { _ in
                try db.execute("COMMIT")
                let bytes = try db.withBlob(table: "t", column: "x", rowID: 2) { try $0.read(count: 1, at: 0) }
                #expect(bytes == [1])
            }
            try db.execute("UPDATE t SET n = 91 WHERE id = 3")
        }
        #expect(try pair.database.fetchValue(Int.self, "SELECT n FROM t WHERE id = 3") == 91)
    }
}
