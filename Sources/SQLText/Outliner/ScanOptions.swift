/// What ends an expression, or may be in it, besides what always does.
struct ScanOptions: OptionSet {
    let rawValue: UInt8

    /// A comma ends it.
    static let one = ScanOptions(rawValue: 1)
    /// It may have `AS x`.
    static let aliases = ScanOptions(rawValue: 2)
    /// DO ends it.
    static let untilDo = ScanOptions(rawValue: 4)
    /// BEGIN ends it.
    static let untilBegin = ScanOptions(rawValue: 8)
}
