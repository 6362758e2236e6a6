public import Midstream
internal import SQLiteConnection

/// Compares what ``Midstream/SchemaUpgrades/freshSchema`` makes with what the steps make, so that users of a new file and of
/// an old one have the same.
///
///     #expect(try UpgradeComparison(upgrades).differences(inFolder: folder).isEmpty)
public struct UpgradeComparison {
    private let upgrades: SchemaUpgrades

    /// Makes one for a sequence that has a shortcut.
    public init(_ upgrades: SchemaUpgrades) {
        self.upgrades = upgrades
    }

    /// What a file that took the shortcut lacks, or has besides, beside one that ran all steps: tables, columns, constraints,
    /// indexes, views, triggers, rows and `PRAGMA user_version`. The order of columns does not count.
    ///
    /// - Parameter folder: An empty folder, in which two files are made.
    /// - Returns: A line for each difference; nothing when there is none.
    /// - Throws: What a step throws.
    public func differences(inFolder folder: String) throws -> [String] {
        var withoutShortcut = upgrades
        withoutShortcut.freshSchema = nil
        let chain = try Self.made(folder + "/chain.db", withoutShortcut)
        let fresh = try Self.made(folder + "/fresh.db", upgrades)
        defer {
            chain.close()
            fresh.close()
        }
        let texts = try chain.fetchAll(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "AND name NOT LIKE 'midstream\\_%' ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY rowid"
        ).map { try $0.get(0, as: String.self) }
        var options = SchemaOptions()
        options.allowsDrops = true
        let plan = try fresh.plan(for: DatabaseSchema(sql: texts.joined(separator: ";\n")), options: options)
        return plan.changes.map { "\($0.name): \($0.summary)" } + (try rowDifferences(chain, fresh))
            + (try versionDifferences(chain, fresh))
    }

    private static func made(_ path: String, _ upgrades: SchemaUpgrades) throws -> Database {
        let database = try Database(path: path)
        try database.upgrade(upgrades)
        while try !database.stepMigration().isFinished {}
        return database
    }

    private func rowDifferences(_ chain: Database, _ fresh: Database) throws -> [String] {
        let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'midstream\\_%' ESCAPE '\\'"
        let common = Set(try fresh.fetchAll(names).map { try $0.get(0, as: String.self) })
        return try chain.fetchAll(names).map { try $0.get(0, as: String.self) }.filter { name in
            guard common.contains(name) else { return false }
            let columns = try chain.fetchAll("PRAGMA table_info(\(Self.quoted(name)))").map { row in
                Self.quoted(try row.get("name"))
            }
            let sql = "SELECT \(columns.joined(separator: ", ")) FROM \(Self.quoted(name))"
            return try Self.rows(chain, sql) != Self.rows(fresh, sql)
        }.map { "\($0): other rows" }
    }

    private static func rows(_ database: Database, _ sql: String) throws -> [String] {
        // A table that lacks a column has been told of.
        ((try? database.fetchAll(sql)) ?? []).map { "\($0.values)" }.sorted()
    }

    private func versionDifferences(_ chain: Database, _ fresh: Database) throws -> [String] {
        let versions = try [chain, fresh].map { try $0.fetchValue(Int64.self, "PRAGMA user_version") ?? 0 }
        return versions[0] == versions[1] ? [] : ["user_version: \(versions[1]) instead of \(versions[0])"]
    }

    private static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }
}
