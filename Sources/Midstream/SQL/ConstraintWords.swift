internal import SQLText

/// What a table's definition says after ON CONFLICT, and whether one of its foreign keys may be deferred.
struct ConstraintWords {
    /// Whether a key says REPLACE, which deletes rows. REPLACE on a NOT NULL constraint does not count: there the column gets its
    /// default.
    var hasReplace = false
    var hasOthersThanReplace = false
    var hasRollback = false
    var hasDeferred = false

    init(_ sql: String) {
        let bytes = Array(sql.utf8)
        var follows = false
        var words = ["", ""]
        var isOfNull = false
        for token in SQLTokenizer(sql) where !token.isTrivia {
            let word = SQLIdentifier.lowercased(String(decoding: bytes[token.range], as: UTF8.self))
            if word == "deferred" { hasDeferred = true }
            if follows {
                if word == "replace", !isOfNull { hasReplace = true }
                if word == "rollback" { hasRollback = true }
                if ["ignore", "fail", "rollback"].contains(word) { hasOthersThanReplace = true }
            }
            follows = word == "conflict"
            isOfNull = words[0] == "null"
            words = [words[1], word]
        }
    }
}
