internal import Midstream
internal import SQLText

/// What `--dry-run` has found out: that every table could begin to move, or has begun.
struct Rehearsal {
    /// How far a table is.
    enum State: String {
        case canMove, moving, moved

        init(of table: String, in found: MigrationRehearsal) {
            func isAmong(_ names: Set<String>) -> Bool { names.contains { SQLIdentifier.equal($0, table) } }
            self = isAmong(found.moved) ? .moved : isAmong(found.moving) ? .moving : .canMove
        }

        fileprivate var words: String {
            switch self {
            case .canMove: "can move"
            case .moving: "is moving already"
            case .moved: "has moved already"
            }
        }
    }

    let source: String
    var tables: [(choice: TableChoice, state: State)]
    /// The objects of the source that are about the tables and would stay there.
    var left: [LeftObject] = []

    var text: String {
        var text = ""
        for (table, state) in tables {
            text += "\(table.target): table \(table.source) of \(source) \(state.words)\n"
        }
        if !left.isEmpty { text += "Would stay in \(source): \(left.map(\.text).joined(separator: ", ")).\n" }
        return text + "Nothing has been changed.\n"
    }

    var json: JSON {
        let tables = tables.map { table, state in
            JSON(object: [
                "table": JSON(table.target), "sourceTable": JSON(table.source), "state": JSON(state.rawValue),
            ])
        }
        return JSON(object: [
            "dryRun": JSON(object: ["tables": JSON(array: tables), "left": JSON(array: left.map(\.json))])
        ])
    }
}
