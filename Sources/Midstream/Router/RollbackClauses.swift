internal import SQLText

/// By which keys a conflict has the transaction rolled back, for a statement that writes a moving table.
struct RollbackClauses {
    /// A key by its columns, in lower case; the rowid by the column for it, or as `rowid`.
    typealias Key = Set<String>

    /// Whether the statement's OR clause says so, for all keys.
    private let isAnyKey: Bool
    /// Those of which the table's definition says so. A statement with an OR clause does not ask it.
    private let keys: Set<Key>
    /// Those that the statement has another answer for; an empty one stands for all.
    private let answered: [Key]

    /// - Returns: `nil` where no key does.
    init?(_ outline: StatementOutline, on table: MovingTable?) {
        if let conflict = outline.conflict {
            guard conflict.word == "rollback" else { return nil }
            isAnyKey = true
            keys = []
        } else {
            isAnyKey = false
            keys = table?.keysThatRollBack ?? []
            if keys.isEmpty { return nil }
        }
        answered = outline.upsert.map { clause in
            let target = Self.names(inFirstParenthesesOf: outline.text(clause))
            return table.map { Set(target.map($0.keyColumn)) } ?? target
        }
    }

    /// - Parameter key: That of a pending row which the target refuses; `nil` where the row is wanted for another reason.
    func rollBack(by key: Key?) -> Bool {
        guard let key else { return isAnyKey }
        if answered.contains(where: { $0.isEmpty || $0 == key }) { return false }
        return isAnyKey || keys.contains(key)
    }

    private static func names(inFirstParenthesesOf text: String) -> Key {
        let bytes = Array(text.utf8)
        // ON CONFLICT (
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia }.dropFirst(2)
        guard tokens.first?.kind == .leftParen else { return [] }
        let target = tokens.prefix { $0.kind != .rightParen }
        return Set(
            target.filter { [.identifier, .quotedIdentifier].contains($0.kind) }.map {
                SQLIdentifier.lowercased(SQLIdentifier.unquoted(String(decoding: bytes[$0.range], as: UTF8.self)))
            }
        )
    }
}

extension MovingTable {
    /// The column that a name in a key stands for.
    fileprivate func keyColumn(_ name: String) -> String {
        key.isRowID && target.columnIndex(name) == nil && MappedColumns.isRowIDName(name) ? rowIDKey : name
    }

    /// How ``RollbackClauses`` names the rowid.
    private var rowIDKey: String {
        target.rowIDColumn.map { SQLIdentifier.lowercased(target.columns[$0].name) } ?? "rowid"
    }

    /// The rowid as a key that a new row may collide by.
    var rollbackKey: RollbackClauses.Key { [rowIDKey] }

    /// A unique index as one.
    func rollbackKey(_ index: TableSchema.Index) -> RollbackClauses.Key {
        Set(
            index.terms.compactMap(\.column).map {
                $0 < 0 ? rowIDKey : SQLIdentifier.lowercased(target.columns[$0].name)
            }
        )
    }

    /// The keys whose constraints say ON CONFLICT ROLLBACK.
    func readKeysThatRollBack() -> Set<RollbackClauses.Key> {
        guard constraintWords.hasRollback, let definition = CreateTable(target.sql) else { return [] }
        func says(_ constraint: CreateTable.Constraint) -> Bool {
            [.primaryKey, .unique].contains(constraint.kind)
                && definition.words(constraint.body).contains("on conflict rollback")
        }
        let names = Set(definition.columns.map { SQLIdentifier.lowercased($0.name) })
        let ofColumns = definition.columns.filter { $0.constraints.contains(where: says) }.map {
            Set([SQLIdentifier.lowercased($0.name)])
        }
        let ofTable = definition.constraints.filter(says).compactMap { constraint in
            definition.parentheses(of: constraint).map { definition.identifiers($0).intersection(names) }
        }
        return Set(ofColumns + ofTable)
    }
}
