/// How far a table has come. Each phase is stored in the target before its effect.
public enum MigrationPhase: Int64, Sendable, Codable {
    /// The target knows of the migration; the source may not be fenced yet.
    case starting = 0
    /// Rows are in both files.
    case copying = 1
    /// All rows are in the target; somebody may still read the source.
    case copied = 2
    /// The source goes as soon as nobody can need it any more.
    case retiring = 3
    /// The source's part is over.
    case done = 4

    /// The word for it that files, commands and messages use.
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
