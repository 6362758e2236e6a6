public import Midstream
internal import SQLiteConnection

/// Compares what ``Midstream/SchemaUpgrades/freshSchema`` makes of a file with what the steps make of one, so that users
/// of a new file and of an old one have the same.
///
///     #expect(try UpgradeComparison(upgrades).differences(inFolder: folder).isEmpty)
public struct UpgradeComparison {
    private let upgrades: SchemaUpgrades

    /// Makes a comparison for a sequence of steps that has a shortcut.
    public init(_ upgrades: SchemaUpgrades) {
        self.upgrades = upgrades
    }

    /// What a file that took the shortcut lacks, or has in addition, compared with a file that ran all steps: tables,
    /// columns, constraints, indexes, views, triggers, rows and `PRAGMA user_version`. The order of columns does not
    /// count.
    ///
    /// - Parameter folder: An empty folder, in which two files are made.
    /// - Returns: A line for each difference; empty if there is none.
    /// - Throws: Whatever a step throws.
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
            "SELECT sql, tbl_name FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY rowid"
        ).filter { try !OwnNames.isTable($0.get(1)) }.map { try $0.get(0, as: String.self) }
        var options = SchemaOptions()
        options.allowsDrops = true
        let plan = try fresh.plan(for: DatabaseSchema(sql: texts.joined(separator: "\n;\n")), options: options)
        return plan.changes.map { "\($0.name): \($0.summary)" } + (try virtualDifferences(chain, fresh))
            + (try rowDifferences(chain, fresh))
            + (try versionDifferences(chain, fresh))
    }

    private static func made(_ path: String, _ upgrades: SchemaUpgrades) throws -> Database {
        let database = try Database(path: path)
        try database.upgrade(upgrades)
        while try !database.stepMigration().isFinished {}
        return database
    }

    /// The declared schema of the comparison leaves out virtual tables, so they are compared here.
    private func virtualDifferences(_ chain: Database, _ fresh: Database) throws -> [String] {
        let sql = "SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'"
        let (made, shortcut) = try (Self.texts(chain, sql), Self.texts(fresh, sql))
        return Set(made.keys).union(shortcut.keys).sorted().compactMap { name in
            if made[name] == shortcut[name] { return nil }
            return made[name] == nil || shortcut[name] == nil
                ? "\(name): a virtual table that is not there in both" : "\(name): another virtual table"
        }
    }

    private static func texts(_ database: Database, _ sql: String) throws -> [String: String] {
        Dictionary(try database.fetchAll(sql).map { (try $0.get(0), try $0.get(1)) }) { first, _ in first }
    }

    private func rowDifferences(_ chain: Database, _ fresh: Database) throws -> [String] {
        let names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        let common = Set(try fresh.fetchAll(names).map { try $0.get(0, as: String.self) })
        return try chain.fetchAll(names).map { try $0.get(0, as: String.self) }.filter { name in
            guard common.contains(name), !OwnNames.isTable(name) else { return false }
            let columns = try chain.fetchAll("PRAGMA table_info(\(Self.quoted(name)))").map { row in
                Self.quoted(try row.get("name"))
            }
            let sql = "SELECT \(columns.joined(separator: ", ")) FROM \(Self.quoted(name))"
            return try Self.rows(chain, sql) != Self.rows(fresh, sql)
        }.map { "\($0): other rows" }
    }

    private static func rows(_ database: Database, _ sql: String) throws -> [String] {
        // A table that lacks a column has already been reported.
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
