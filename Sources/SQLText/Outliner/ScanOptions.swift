/// Options of a scan: what else ends an expression, or may be in it.
struct ScanOptions: OptionSet {
    let rawValue: UInt8

    /// A comma ends the expression.
    static let one = ScanOptions(rawValue: 1)
    /// The expression may have `AS x`.
    static let aliases = ScanOptions(rawValue: 2)
    /// DO ends the expression.
    static let untilDo = ScanOptions(rawValue: 4)
    /// BEGIN ends the expression.
    static let untilBegin = ScanOptions(rawValue: 8)
}
