internal import SQLiteConnection

extension Database {
    /// Runs the steps that this file has not run yet. Each step and its record are one transaction.
    ///
    ///     let database = try Database(path: "app.db")
    ///     try database.upgrade(upgrades)
    ///     database.startAutoMigration()
    ///
    /// Call this at each launch, before all else. When it returns, tables that steps rebuild have their new shape, and
    /// their rows move after that: see ``DatabaseAccess/rebuild(_:_:)``. If there is nothing to do, the file is only
    /// read.
    ///
    /// - Returns: What was done.
    /// - Throws: Whatever a step throws: that step is undone, and the steps before it stay. ``MigrationError`` with
    ///   ``MigrationError/Code/newerSchema`` if a newer build has upgraded the file.
    @discardableResult
    public func upgrade(_ upgrades: SchemaUpgrades) throws -> UpgradeReport {
        try upgrades.check()
        var report = UpgradeReport()
        let hasAll = try read { access in
            let state = try UpgradeRecords(access: access, upgrades: upgrades).state()
            return state.isRecorded && state.unknown.isEmpty
                && upgrades.steps.allSatisfy { state.names.contains($0.name) }
        }
        if hasAll { return report }
        while try write({ try UpgradeRun(access: $0, upgrades: upgrades).runNext(&report) }) {}
        return report
    }

    /// Runs the steps that this file has not run yet in one transaction, and takes the whole transaction back.
    ///
    /// Anything that the steps do besides writing this database is not taken back.
    ///
    /// - Returns: What ``upgrade(_:)`` would do.
    /// - Throws: As ``upgrade(_:)``.
    public func rehearse(_ upgrades: SchemaUpgrades) throws -> UpgradeReport {
        try upgrades.check()
        var report = UpgradeReport()
        do {
            try write { access in
                while try UpgradeRun(access: access, upgrades: upgrades).runNext(&report) {}
                throw Rehearsed()
            }
        } catch is Rehearsed {
            return report
        }
        return report
    }

    /// Thrown to take a rehearsal back.
    private struct Rehearsed: Error {}
}

/// The steps of an upgrade, in the open transaction.
private struct UpgradeRun {
    let access: DatabaseAccess
    let upgrades: SchemaUpgrades

    private static let savepoint = "midstream_step"

    /// Runs the first step that this file has not run yet.
    ///
    /// - Returns: Whether there may be another step.
    func runNext(_ report: inout UpgradeReport) throws -> Bool {
        let records = UpgradeRecords(access: access, upgrades: upgrades)
        let state = try records.state()
        if !state.unknown.isEmpty {
            guard let onNewerSchema = upgrades.onNewerSchema else { throw Self.newer(state.unknown) }
            try onNewerSchema(access, state.unknown)
            try recordAll(records)
            return false
        }
        if state.isFresh, let freshSchema = upgrades.freshSchema {
            try freshSchema(access)
            try recordAll(records)
            report.isFresh = true
            return false
        }
        if !state.isRecorded { try records.record(state.names.union(upgrades.retiredSteps)) }
        guard let step = upgrades.steps.first(where: { !state.names.contains($0.name) }) else { return false }
        access.rebuilt = []
        defer { access.rebuilt = nil }
        // If the step ends the transaction, the savepoint goes with it, even if the step begins another transaction.
        try access.connection.execute("SAVEPOINT \(Self.savepoint)")
        try step.body(access)
        do {
            try access.connection.execute("RELEASE \(Self.savepoint)")
        } catch {
            throw MigrationError(
                .misuse,
                "step \(step.name) has ended the transaction that it runs in, and is not recorded: leave COMMIT, END "
                    + "and ROLLBACK out of it",
                cause: error
            )
        }
        try records.record(step)
        report.steps.append(step.name)
        report.rebuilt += access.rebuilt ?? []
        return true
    }

    private func recordAll(_ records: UpgradeRecords) throws {
        try records.record(upgrades.retiredSteps.union(upgrades.steps.map(\.name)))
        try records.setVersion(upgrades.steps.compactMap(\.version).last)
    }

    private static func newer(_ unknown: [String]) -> MigrationError {
        MigrationError(
            .newerSchema,
            "a newer build has upgraded this file's schema (\(unknown.joined(separator: ", "))): open the file with "
                + "that build, or say by SchemaUpgrades.onNewerSchema what to do with the file"
        )
    }
}
