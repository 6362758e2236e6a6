/// Why edits could not be made. Offsets are into the UTF-8 of the text.
public enum SQLEditError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Two edits change the same bytes, or one is partly outside the range to extract.
    case overlap(Range<Int>, Range<Int>)
    /// A range is not within the text.
    case outOfBounds(Range<Int>, length: Int)
    /// A range starts or ends inside a character.
    case splitsCharacter(Int)

    /// What is wrong, in one sentence.
    public var description: String {
        switch self {
        case .overlap(let first, let second):
            "The edits of bytes \(first) and \(second) overlap; make them one edit."
        case .outOfBounds(let range, let length):
            "The edit of bytes \(range) is outside the text of \(length) bytes."
        case .splitsCharacter(let offset):
            "The edit at byte \(offset) is inside a character."
        }
    }
}
