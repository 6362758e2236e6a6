internal import SQLText

extension SchemaPlanner {
    /// Creates the virtual tables that are missing. Nobody but their modules could bring what others keep into another shape.
    mutating func createVirtualTables() throws {
        for table in wanted.virtualTables {
            guard let there = present.virtualTables.named(table.name) else {
                try run(table.name, "create", [table.sql])
                continue
            }
            if there.isSame(as: table) { continue }
            throw MigrationError(
                .unsupported,
                "virtual table \(table.name) is declared in other words than the file has it: drop it by a statement of your own, "
                    + "so that it is created anew, and fill it after that; the file has \(there.sql)",
                table: table.name
            )
        }
        plan.undeclared += present.virtualTables.map(\.name).filter { wanted.virtualTables.named($0) == nil }
    }
}
