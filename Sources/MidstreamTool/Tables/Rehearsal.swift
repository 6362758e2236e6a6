/// What `--dry-run` has found: that all of it could begin.
struct Rehearsal {
    let source: String
    var tables: [TableChoice]
    /// What of the source is about the tables, and would stay there.
    var left: [LeftObject] = []

    var text: String {
        var text = ""
        for table in tables { text += "\(table.target): table \(table.source) of \(source) can move\n" }
        if !left.isEmpty { text += "Would stay in \(source): \(left.map(\.text).joined(separator: ", ")).\n" }
        return text + "Nothing has been changed.\n"
    }

    var json: JSON {
        let tables = tables.map { JSON(object: ["table": JSON($0.target), "sourceTable": JSON($0.source)]) }
        return JSON(object: [
            "dryRun": JSON(object: ["tables": JSON(array: tables), "left": JSON(array: left.map(\.json))])
        ])
    }
}
