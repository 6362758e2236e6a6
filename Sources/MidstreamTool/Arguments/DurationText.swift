/// Durations as text: `10ms`, `1.5s`.
enum DurationText {
    /// Reads a positive number with one of the units us, ms, s and min.
    static func parse(_ text: String) -> Duration? {
        let units: [(String, Double)] = [("us", 1e-6), ("ms", 1e-3), ("min", 60), ("s", 1)]
        for (unit, seconds) in units where text.hasSuffix(unit) {
            let number = text.dropLast(unit.count)
            guard number.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), let value = Double(number) else {
                return nil
            }
            let total = value * seconds
            guard total > 0, total <= 86_400 else { return nil }
            return .nanoseconds(Int64((total * 1e9).rounded(.up)))
        }
        return nil
    }
}
