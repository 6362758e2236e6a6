#if DEBUG
    internal import SQLText
    internal import SQLiteConnection

    extension StateStore {
        /// Checks what must hold for the stored state at the end of each of the stepper's transactions. Only in debug builds.
        ///
        /// - Returns: What does not hold; `nil` if everything does.
        func checkInvariants() throws -> String? {
            let (migrations, records) = try load()
            let ids = Set(migrations.map(\.id))
            for record in records {
                let name = "table \(record.target) (\(record.id))"
                if !ids.contains(record.migration) { return "\(name) has no migration" }
                if record.copied < 0 || record.settled < 0 { return "\(name) has negative counts" }
                if let total = record.total, record.copied + record.settled > total, record.phase != .copying {
                    return "\(name) has more rows than its source"
                }
                if record.phase.rawValue > MigrationPhase.copying.rawValue, record.watermark != .max {
                    return "\(name) is \(record.phase.name), but not all of its rows are passed"
                }
                if try record.phase.rawValue < MigrationPhase.done.rawValue && !exists("table", record.ledger) {
                    return "\(name) has no ledger"
                }
                // The reverse is not checked: another program may drop the triggers with their table. That is an error which the
                // application gets.
                if try record.phase != .copying && exists("trigger", MoveSQL.trigger("insert", record.id)) {
                    return "\(name) is \(record.phase.name), and has its guard triggers"
                }
                if record.phase == .copying, let passed = try ledgerEntryPassed(record) {
                    return "\(name) has passed row \(passed), which is in its ledger"
                }
            }
            return nil
        }

        private func exists(_ type: String, _ name: String) throws -> Bool {
            let sql = "SELECT 1 FROM main.sqlite_master WHERE type = ? AND name = ? COLLATE NOCASE"
            return try connection.fetchOne(sql, [type, name]) != nil
        }

        private func ledgerEntryPassed(_ record: TableRecord) throws -> Int64? {
            guard let watermark = record.watermark else { return nil }
            let columns = try connection.fetchAll("PRAGMA main.table_info(\(SQLIdentifier.quoted(record.ledger)))")
            guard columns.first?["name"] == .text("key") else { return nil }
            return try connection.fetchValue(
                "SELECT key FROM main.\(record.ledger) WHERE key <= ? LIMIT 1",
                [watermark]
            )
        }
    }
#endif
