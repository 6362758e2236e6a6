extension Outliner {
    /// Parses what follows CREATE TRIGGER.
    func parseCreateTrigger() throws(Unknown) {
        try parseNewName()
        if take(.instead) {
            try expect(.of)
        } else if !take(.before) {
            _ = take(.after)
        }
        try parseTriggerEvent()
        try expect(.on)
        outline.onTable = try parseObjectName()
        if take(.for) {
            try expect(.each)
            try expect(.row)
        }
        if take(.when) { try scan(in: 0, .untilBegin) }
        try expect(.begin)
        repeat {
            try parseTriggerStep()
            try expect(.semicolon)
        } while !take(.end)
    }

    private func parseTriggerEvent() throws(Unknown) {
        if take(.delete) || take(.insert) { return }
        try expect(.update)
        guard take(.of) else { return }
        let start = position
        repeat { outline.columnNames.append(try parseName().name) } while take(.comma)
        outline.columns = range(from: start)
    }

    /// Parses one statement of the trigger's body, in a scope of its own. The statement's clauses are not those of the
    /// CREATE TRIGGER.
    private func parseTriggerStep() throws(Unknown) {
        let whole = outline
        defer {
            let hasRowMembership = outline.hasRowMembership
            outline = whole
            outline.hasRowMembership = hasRowMembership
        }
        try parseQueryOrWrite(in: newScope(in: 0))
    }
}
