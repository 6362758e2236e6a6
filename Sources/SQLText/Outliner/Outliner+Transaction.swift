extension Outliner {
    func parseBegin() throws(Unknown) {
        try expect(.begin)
        outline.kind = .begin
        let start = position
        switch word {
        case .deferred, .immediate, .exclusive: position += 1
        default: break
        }
        outline.arguments = range(from: start)
        try skipTransactionName()
    }

    /// Parses COMMIT, END, ROLLBACK, SAVEPOINT and RELEASE.
    func parseTransactionEnd() throws(Unknown) {
        let verb = word
        position += 1
        switch verb {
        case .rollback:
            outline.kind = .rollback
            try skipTransactionName()
            if take(.to) {
                outline.kind = .rollbackTo
                _ = take(.savepoint)
                outline.target = try parseSingleName()
            }
        case .savepoint:
            outline.kind = .savepoint
            outline.target = try parseSingleName()
        case .release:
            outline.kind = .release
            _ = take(.savepoint)
            outline.target = try parseSingleName()
        default:
            outline.kind = .commit
            try skipTransactionName()
        }
    }

    /// Passes `TRANSACTION x`. SQLite accepts the name and does nothing with it.
    private func skipTransactionName() throws(Unknown) {
        if take(.transaction), isName(at: position) { position += 1 }
    }
}
