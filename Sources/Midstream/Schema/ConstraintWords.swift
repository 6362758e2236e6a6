internal import SQLText

/// The words after ON CONFLICT in a table's definition, and whether a foreign key may be deferred.
struct ConstraintWords {
    var hasReplace = false
    var hasOthersThanReplace = false
    var hasRollback = false
    var hasDeferred = false

    init(_ sql: String) {
        let bytes = Array(sql.utf8)
        var follows = false
        for token in SQLTokenizer(sql) where !token.isTrivia {
            let word = SQLIdentifier.lowercased(String(decoding: bytes[token.range], as: UTF8.self))
            if word == "deferred" { hasDeferred = true }
            if follows {
                if word == "replace" { hasReplace = true }
                if word == "rollback" { hasRollback = true }
                if ["ignore", "fail", "rollback"].contains(word) { hasOthersThanReplace = true }
            }
            follows = word == "conflict"
        }
    }
}
