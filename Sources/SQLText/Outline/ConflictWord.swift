/// What INSERT OR …, UPDATE OR … or REPLACE says to do in a conflict.
public struct ConflictWord: Hashable, Sendable {
    /// `abort`, `fail`, `ignore`, `replace` or `rollback`.
    public let word: String
    /// Where the word is, without OR.
    public let range: Range<Int>
}
