internal import SQLText

/// The keys for which a conflict rolls the transaction back, for a statement that writes a moving table.
struct RollbackClauses {
    /// A key by which a new row may collide.
    enum Key: Hashable {
        case rowID
        /// A unique index, by its name.
        case index(String)
    }

    /// Why the target was to take a pending row that it refused.
    enum Refusal {
        /// The statement affects the row itself.
        case meant
        /// A new row collides with the pending row. `row` counts the rows that the statement makes, from 1.
        case collision(Key, row: Int)
        /// The pending row has the largest rowid.
        case largest
    }

    private let table: MovingTable
    /// Whether the statement's OR clause says ROLLBACK, for all keys.
    private let isAnyKey: Bool
    /// For each upsert clause, the columns of the key for which it has another answer, in lower case; empty for all keys.
    private let answered: [Set<String>]
    /// Whether the statement may update a row instead, for which nothing is rolled back. Only the first row is known to be inserted
    /// and not updated.
    private let mayUpdate: Bool

    /// - Returns: `nil` if there is no such key.
    init?(_ outline: StatementOutline, on table: MovingTable?) {
        guard let table else { return nil }
        if let conflict = outline.conflict {
            guard conflict.word == "rollback" else { return nil }
        } else if table.keysThatRollBack.isEmpty {
            return nil
        }
        self.table = table
        isAnyKey = outline.conflict != nil
        answered = outline.upsert.map { DefinedKey.columns(inFirstParenthesesOf: outline.text($0)).map(Set.init) ?? [] }
        mayUpdate = outline.upsert.contains { CreateTable.words(outline.text($0)).contains("do update set") }
    }

    func rollBack(after refusal: Refusal) -> Bool {
        switch refusal {
        case .largest: return false
        case .meant: return isAnyKey
        case .collision(let key, let row):
            if mayUpdate, row > 1 { return false }
            if answered.contains(where: { $0.isEmpty || table.isKey(key, of: $0) }) { return false }
            return isAnyKey || table.keysThatRollBack.contains(key)
        }
    }
}

extension MovingTable {
    /// Whether a key consists of these columns.
    fileprivate func isKey(_ key: RollbackClauses.Key, of columns: Set<String>) -> Bool {
        switch key {
        case .rowID:
            guard columns.count == 1, let name = columns.first else { return false }
            return target.columnIndex(name).map { $0 == target.rowIDColumn } ?? MappedColumns.isRowIDName(name)
        case .index(let name):
            let index = target.indexes.first { $0.name == name }
            return index.map { Set($0.terms.compactMap(\.column).map(columnName)) == columns } ?? false
        }
    }

    private func columnName(_ index: Int) -> String {
        index < 0 ? "rowid" : SQLIdentifier.lowercased(target.columns[index].name)
    }

    /// The keys whose constraints say ON CONFLICT ROLLBACK.
    func readKeysThatRollBack() -> Set<RollbackClauses.Key> {
        guard constraintWords.hasRollback, let definition = CreateTable(target.sql) else { return [] }
        func says(_ constraint: CreateTable.Constraint) -> Bool {
            [.primaryKey, .unique].contains(constraint.kind)
                && definition.words(constraint.body).contains("on conflict rollback")
        }
        let ofColumns = definition.columns.filter { $0.constraints.contains(where: says) }.map {
            [DefinedKey(column: SQLIdentifier.lowercased($0.name))]
        }
        let ofTable = definition.constraints.filter(says).compactMap {
            DefinedKey.parts(inFirstParenthesesOf: definition.text($0.body))
        }
        return Set(
            (ofColumns + ofTable).compactMap { parts in
                if parts.count == 1, let column = target.rowIDColumn, columnName(column) == parts[0].column {
                    return .rowID
                }
                return target.indexes.first { isIndex($0, of: parts) }.map { .index($0.name) }
            }
        )
    }

    /// Whether SQLite has made this index for a constraint on these parts.
    private func isIndex(_ index: TableSchema.Index, of parts: [DefinedKey]) -> Bool {
        guard index.name.hasPrefix("sqlite_autoindex_"), index.terms.count == parts.count else { return false }
        return zip(index.terms, parts).allSatisfy { term, part in
            guard let column = term.column, column >= 0, columnName(column) == part.column else { return false }
            return SQLIdentifier.equal(term.collation, part.collation ?? target.columns[column].collation)
        }
    }
}

/// A column of a key, as a constraint or an upsert clause names it, in lower case.
private struct DefinedKey {
    var column: String
    var collation: String?

    static func columns(inFirstParenthesesOf text: String) -> [String]? {
        // ON CONFLICT is followed by parentheses, or by DO.
        let isTarget = SQLTokenizer(text).filter { !$0.isTrivia }.dropFirst(2).first?.kind == .leftParen
        return isTarget ? parts(inFirstParenthesesOf: text)?.map(\.column) : nil
    }

    /// - Returns: `nil` if the text has no parentheses.
    static func parts(inFirstParenthesesOf text: String) -> [DefinedKey]? {
        let bytes = Array(text.utf8)
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia }
        guard let start = tokens.firstIndex(where: { $0.kind == .leftParen }) else { return nil }
        var parts: [DefinedKey] = []
        var (depth, words) = (1, [String]())
        func word(_ token: Token) -> String {
            SQLIdentifier.lowercased(SQLIdentifier.unquoted(String(decoding: bytes[token.range], as: UTF8.self)))
        }
        func end() {
            guard let column = words.first else { return }
            let collate = words.dropFirst().firstIndex(of: "collate")
            let collation = collate.flatMap { $0 + 1 < words.count ? words[$0 + 1] : nil }
            parts.append(DefinedKey(column: column, collation: collation))
            words = []
        }
        for token in tokens[(start + 1)...] where depth > 0 {
            switch token.kind {
            case .leftParen: depth += 1
            case .rightParen: depth -= 1
            case .comma: end()
            // The word before a dot is the table's name.
            case .dot: words.removeAll()
            case .identifier, .quotedIdentifier, .string: words.append(word(token))
            default: break
            }
        }
        end()
        return parts
    }
}
