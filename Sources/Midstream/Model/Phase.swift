/// How far a table's move has come. The target stores each phase before the phase takes effect.
public enum MigrationPhase: Int64, Sendable, Codable {
    /// The target knows of the migration; the source may not be fenced yet.
    case starting = 0
    /// Rows are in both files.
    case copying = 1
    /// All rows are in the target; a reader may still read the source.
    case copied = 2
    /// The source is retired as soon as no reader can need it any more.
    case retiring = 3
    /// The source's part is over.
    case done = 4

    /// The word for the phase that files, commands and messages use.
    public var name: String {
        switch self {
        case .starting: "starting"
        case .copying: "copying"
        case .copied: "copied"
        case .retiring: "retiring"
        case .done: "done"
        }
    }
}
