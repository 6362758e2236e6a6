internal import SQLText

/// New names of tables, or of a table's columns: which renamings are still to be made, and in which order.
struct SchemaRenames {
    /// `table`, or `column`.
    let kind: String
    /// The table, if columns are renamed.
    let table: String?
    /// The names that exist.
    let present: [String]
    /// The names that are declared.
    let declared: [String]

    /// - Parameter wanted: New names by the old ones.
    /// - Returns: The renamings to make, in an order in which each new name is free. The names are written as in the
    ///   file and in the declaration.
    /// - Throws: ``MigrationError`` if a new name is not declared, or cannot be given.
    func pending(_ wanted: [String: String]) throws -> [(old: String, new: String)] {
        var left = wanted.sorted { $0.key < $1.key }.filter { !SQLIdentifier.equal($0.key, $0.value) }
        for (old, new) in left where named(new, declared) == nil {
            throw refuse("\(kind) \(old) is to be called \(new), which the schema does not declare")
        }
        var names = present
        var pending: [(old: String, new: String)] = []
        while !left.isEmpty {
            // A renaming whose new name is not the old name in another renaming.
            guard
                let index = left.firstIndex(where: { pair in !left.contains { SQLIdentifier.equal($0.key, pair.value) }
                })
            else {
                throw refuse(
                    "\(kind)s \(left.map(\.key).joined(separator: ", ")) swap names in a circle. Midstream cannot tell "
                        + "whether that has been done already: use new names"
                )
            }
            let (old, new) = left.remove(at: index)
            guard let there = named(old, names) else {
                try expect(new, instead: old, names, wanted)
                continue
            }
            if named(new, names) != nil {
                // The renaming was made before, and the old name is used again.
                if named(old, declared) != nil { continue }
                throw refuse(
                    "\(kind) \(old) cannot be called \(new), since there already is a \(kind) of that name: drop or "
                        + "rename that one first"
                )
            }
            names.removeAll { SQLIdentifier.equal($0, there) }
            names.append(new)
            pending.append((there, named(new, declared) ?? new))
        }
        return pending
    }

    /// Makes sure that a new name exists if its old name does not. If neither exists, the old name may be misspelt,
    /// provided that there is a name that it can have meant.
    private func expect(_ new: String, instead old: String, _ names: [String], _ wanted: [String: String]) throws {
        let others = names.filter { name in
            named(name, declared) == nil && !wanted.keys.contains { SQLIdentifier.equal($0, name) }
        }
        if named(new, names) != nil || others.isEmpty { return }
        if wanted.contains(where: { SQLIdentifier.equal($0.value, new) && named($0.key, names) != nil }) { return }
        throw refuse(
            "there is no \(kind) \(old) to rename to \(new), and no \(kind) \(new) either; these \(kind)s are not "
                + "declared: "
                + others.joined(separator: ", ")
        )
    }

    private func named(_ name: String, _ names: [String]) -> String? { names.first { SQLIdentifier.equal($0, name) } }

    private func refuse(_ message: String) -> MigrationError {
        MigrationError(.misuse, (table.map { "table \($0): " } ?? "") + message, table: table)
    }
}
