internal import SQLText
internal import SQLiteConnection

/// The progress of builds, as stored in the target.
///
/// `Docs/FileFormat.md` describes the tables.
struct BuildStore {
    static let table = OwnNames.builds
    static let cursors = OwnNames.cursors
    let connection: Connection
    /// The schema under which the target is attached.
    var schema = "main"

    /// The progress of one part of a build. The first part is the rows, the next ones are the indexes, the last one is the merging
    /// of what was written. In the last part, rows of superseded keys leave in stage `filling`, and rows of the live table come in
    /// stage `fillingNulls`.
    struct Part: Equatable {
        var number: Int
        var stage = Stage.filling
        /// How many rows, or entries without NULLs, the part was filled with. In the last part: how often rows were merged.
        var count: Int64 = 0
        /// How many entries an index should have according to the rows, and how many of these have NULLs. In the part of the rows,
        /// both are 0. In the last part, `nulls` is 1 once entries with NULLs are in their indexes; from then on no row can leave.
        var expected: Int64 = 0
        var nulls: Int64 = 0
        /// The sum of the hashes of the rows, or of the entries that came from an index of the source; and the sum according to the
        /// rows.
        var hashes: Int64 = 0
        var expectedHashes: Int64 = 0

        enum Stage: Int64 {
            case filling = 0
            /// Filled with entries with NULLs; in the last part, with rows that were written.
            case fillingNulls = 1
            case filled = 2
        }
    }

    private func exists() throws -> Bool { try StateStore(connection: connection, schema: schema).exists(Self.table) }

    /// Creates the tables, in the open transaction.
    func create() throws {
        if try exists() { return }
        try connection.create(
            in: SQLIdentifier.unquoted(schema),
            [
                """
                CREATE TABLE \(schema).\(Self.table)(
                    id INTEGER NOT NULL, part INTEGER NOT NULL, stage INTEGER NOT NULL, count INTEGER NOT NULL,
                    expected INTEGER NOT NULL, nulls INTEGER NOT NULL, hashes INTEGER NOT NULL,
                    expected_hashes INTEGER NOT NULL, definition TEXT, PRIMARY KEY (id, part)) WITHOUT ROWID
                """,
                """
                CREATE TABLE \(schema).\(Self.cursors)(
                    id INTEGER NOT NULL, place INTEGER NOT NULL, value, PRIMARY KEY (id, place)) WITHOUT ROWID
                """,
            ]
        )
    }

    /// What is noted of a table besides its build's parts. It is stored as a part with this number.
    enum Mark: Int {
        /// The table is not to be built.
        case givenUp = -1
        /// The build has the source's rows alone. Rows that the application had written, each of which came at its own time, had
        /// equal values in a unique index.
        case ofSourceAlone = -2
    }

    func has(_ mark: Mark, _ id: Int64) throws -> Bool {
        guard try exists() else { return false }
        let sql = "SELECT 1 FROM \(schema).\(Self.table) WHERE id = ? AND part = ?"
        return try connection.fetchOne(sql, [id, Int64(mark.rawValue)]) != nil
    }

    /// The parts of a table's build; empty if there is no build.
    func parts(_ id: Int64) throws -> [Part] {
        guard try exists() else { return [] }
        return try connection.mapRows(
            "SELECT part, stage, count, expected, nulls, hashes, expected_hashes FROM \(schema).\(Self.table) "
                + "WHERE id = ? AND part >= 0 ORDER BY part",
            [id]
        ) { row in
            Part(
                number: Int(row.int64(at: 0)),
                stage: Part.Stage(rawValue: row.int64(at: 1)) ?? .filling,
                count: row.int64(at: 2),
                expected: row.int64(at: 3),
                nulls: row.int64(at: 4),
                hashes: row.int64(at: 5),
                expectedHashes: row.int64(at: 6)
            )
        }
    }

    /// The share of a build's work that is done. Rows and entries of indexes count the same.
    ///
    /// - Parameter total: How many rows the table is to have.
    func shareDone(of id: Int64, total: Int64) throws -> Double {
        let parts = try parts(id).dropLast()
        if parts.isEmpty { return 0 }
        let isExpected = parts[0].stage == .filled
        let expected = parts.reduce(0) { $0 + ($1.number > 0 && isExpected ? $1.expected - $1.nulls : total) }
        let done = parts.reduce(0) { $0 + $1.count }
        return expected > 0 ? min(1, Double(done) / Double(expected)) : 0
    }

    /// The CREATE texts of the table and its indexes when the build began; `nil` if there is no build.
    func definition(_ id: Int64) throws -> String? {
        guard try exists() else { return nil }
        let sql = "SELECT definition FROM \(schema).\(Self.table) WHERE id = ? AND part = 0"
        return try connection.fetchValue(sql, [id])
    }

    func save(_ part: Part, of id: Int64, definition: String? = nil) throws {
        let values: Arguments = [
            id, Int64(part.number), part.stage.rawValue, part.count, part.expected, part.nulls, part.hashes,
            part.expectedHashes, definition,
        ]
        try connection.execute(
            "INSERT OR REPLACE INTO \(schema).\(Self.table) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ifnull(?9, "
                + "(SELECT definition FROM \(schema).\(Self.table) WHERE id = ?1 AND part = ?2))",
            values
        )
    }

    /// The entry or the key up to which the current part is filled; `nil` at its beginning.
    func cursor(_ id: Int64) throws -> [ExactValue]? {
        let values = try connection.mapRows(
            "SELECT value FROM \(schema).\(Self.cursors) WHERE id = ? ORDER BY place",
            [id]
        ) { RowReader($0).exactValue(at: 0) }
        return values.isEmpty ? nil : values
    }

    func save(cursor values: [ExactValue]?, of id: Int64) throws {
        try connection.execute("DELETE FROM \(schema).\(Self.cursors) WHERE id = ?", [id])
        guard let values else { return }
        let statement = try connection.cachedStatement(
            "INSERT INTO \(schema).\(Self.cursors)(id, place, value) VALUES (?, ?, ?)"
        )
        defer { statement.reset() }
        for (place, value) in values.enumerated() {
            try statement.bind(id, at: 1)
            try statement.bind(Int64(place), at: 2)
            try statement.bind(value, at: 3)
            try statement.run()
        }
    }

    /// The ids of the tables that have a build, or are not to be built.
    func ids() throws -> [Int64] {
        guard try exists() else { return [] }
        return try connection.mapRows("SELECT DISTINCT id FROM \(schema).\(Self.table)") { $0.int64(at: 0) }
    }

    /// Drops a table's build, in the open transaction.
    ///
    /// - Parameter mark: A note for the next build, or `nil`.
    func drop(_ id: Int64, noting mark: Mark? = nil) throws {
        guard try exists() else { return }
        try connection.withoutOverwriting(schema) {
            for part in try parts(id) {
                let name = OwnNames.build(id, part: part.number)
                for table in [name] + OwnNames.buildSuffixes.map({ name + $0 }) {
                    try connection.dropTable(table, in: SQLIdentifier.unquoted(schema))
                }
            }
        }
        try connection.execute("DELETE FROM \(schema).\(Self.table) WHERE id = ?", [id])
        try save(cursor: nil, of: id)
        if let mark {
            try save(Part(number: mark.rawValue), of: id)
        } else if try ids().isEmpty {
            for table in [Self.table, Self.cursors] {
                try connection.dropTable(table, in: SQLIdentifier.unquoted(schema))
            }
        }
    }
}
