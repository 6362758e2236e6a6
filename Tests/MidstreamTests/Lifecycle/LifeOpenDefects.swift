/// What lives leave out since it is known to go wrong, until it is mended. `MIDSTREAM_LIFECYCLE_ALL=1` includes it.
enum LifeOpenDefects {
    private static let all = Files.environment("MIDSTREAM_LIFECYCLE_ALL") == "1"

    /// A table that returns to its source becomes the source of a move within its file.
    static let movesOnWhileReturning = all
    /// Rows of a table without a declared key return to an INTEGER PRIMARY KEY.
    static let returnsToOtherKeys = all
    /// A table that moves within its file, or was kept by a move to another file, is asked for again.
    static let movesTwice = all
    /// A launch says its migrations again after a source or a target was moved alone.
    static let saysAgainElsewhere = all
    /// The first file of a chain of files is moved alone.
    static let movesFirstFileOfChain = all
}
