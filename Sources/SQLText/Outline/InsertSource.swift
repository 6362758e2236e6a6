/// Where an INSERT has its rows from.
public enum InsertSource: Hashable, Sendable {
    /// `VALUES (…), (…)` and nothing else: the values of each row, and the whole from VALUES on.
    case values(rows: [[Range<Int>]], range: Range<Int>)
    /// A SELECT, or VALUES as part of a compound; with its own WITH.
    case select(Range<Int>)
    /// `DEFAULT VALUES`.
    case defaultValues(Range<Int>)
}
