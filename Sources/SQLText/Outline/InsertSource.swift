/// Where an INSERT takes its rows from.
public enum InsertSource: Hashable, Sendable {
    /// `VALUES (…), (…)` and nothing else: the values of each row, and the range of the whole from VALUES on.
    case values(rows: [[Range<Int>]], range: Range<Int>)
    /// A SELECT, or a compound with VALUES in it; the range includes its own WITH.
    case select(Range<Int>)
    /// `DEFAULT VALUES`.
    case defaultValues(Range<Int>)
}
