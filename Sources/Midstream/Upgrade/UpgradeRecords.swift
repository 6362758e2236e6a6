internal import SQLiteConnection

/// Which steps have run in a file, read in the open transaction.
///
/// `Docs/FileFormat.md` describes the table of records, which stays in the file.
struct UpgradeRecords {
    let access: DatabaseAccess
    let upgrades: SchemaUpgrades

    /// What a file tells of its steps.
    struct State {
        /// The steps that have run.
        var names: Set<String>
        /// Whether the names come from the table of records, and are not known by other means.
        var isRecorded: Bool
        /// Whether the file has no table at all.
        var isFresh: Bool
        /// The steps, or the version, that this build does not know.
        var unknown: [String]
    }

    static let table = OwnNames.upgrades
    /// The table in which GRDB's migrator records the identifiers of migrations that have run.
    static let grdbTable = "grdb_migrations"
    private var connection: Connection { access.connection }

    func state() throws -> State {
        let known = Set(upgrades.steps.map(\.name)).union(upgrades.retiredSteps)
        if try exists(Self.table) {
            let names = try names("SELECT name FROM main.\(Self.table)")
            let unknown = names.subtracting(known).sorted()
            // A newer build may have gone back to counting versions alone. The versions of retired steps are not known.
            let tells =
                unknown.isEmpty && upgrades.versionBefore == nil && names.isDisjoint(with: upgrades.retiredSteps)
            let newer = tells ? try newerVersion(userVersion()) : []
            return State(names: names, isRecorded: true, isFresh: false, unknown: unknown + newer)
        }
        if let version = try upgrades.versionBefore?(access) { return try state(of: version) }
        if try exists(Self.grdbTable) {
            let names = try names("SELECT identifier FROM main.\(Self.grdbTable)")
            return State(names: names, isRecorded: false, isFresh: false, unknown: names.subtracting(known).sorted())
        }
        return try state(of: userVersion())
    }

    private func userVersion() throws -> Int64 {
        try connection.fetchValue("PRAGMA main.user_version") ?? 0
    }

    private func newerVersion(_ version: Int64) -> [String] {
        guard let newest = upgrades.steps.compactMap(\.version).last, version > newest else { return [] }
        return ["version \(version)"]
    }

    private func state(of version: Int64) throws -> State {
        State(
            names: Set(upgrades.steps(upTo: version).map(\.name)),
            isRecorded: false,
            isFresh: try version == 0 && SchemaReader(connection: connection, schema: "main").tableNames().isEmpty,
            unknown: newerVersion(version)
        )
    }

    private func exists(_ table: String) throws -> Bool {
        try connection.fetchOne("SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?", [table]) != nil
    }

    private func names(_ sql: String) throws -> Set<String> {
        Set(try connection.fetchAll(sql).map { try $0.get(0) })
    }

    /// Replaces the records by these names. Names of retired steps belong to them: a build that still has these steps
    /// must not run them.
    func record(_ names: some Sequence<String>) throws {
        try connection.execute("CREATE TABLE IF NOT EXISTS main.\(Self.table)(name TEXT PRIMARY KEY) WITHOUT ROWID")
        try connection.execute("DELETE FROM main.\(Self.table)")
        for name in names { try record(name) }
    }

    private func record(_ name: String) throws {
        try connection.execute("INSERT INTO main.\(Self.table)(name) VALUES (?)", [name])
    }

    /// Records a step that has run.
    func record(_ step: SchemaUpgrades.Step) throws {
        try record(step.name)
        // If a later build has put this step before steps that have already run, the step's version is lower than the
        // file's.
        if let version = step.version, try version > userVersion() { try setVersion(version) }
    }

    /// Sets the version where other programs look for it.
    func setVersion(_ version: Int64?) throws {
        if let version { try connection.execute("PRAGMA main.user_version = \(version)") }
    }
}
