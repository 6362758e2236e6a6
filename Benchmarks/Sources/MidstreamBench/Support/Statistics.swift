extension Collection where Element == Double {
    /// The median of the values; 0 if there are none.
    var median: Double { percentile(0.5) }

    /// The smallest value that the given part of the values does not exceed; 0 if there are no values.
    func percentile(_ part: Double) -> Double {
        let sorted = sorted()
        guard !sorted.isEmpty else { return 0 }
        return sorted[Swift.min(sorted.count - 1, Int(part * Double(sorted.count)))]
    }
}

extension Duration {
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}

extension Double {
    /// The number with the given number of digits after the point.
    func fixed(_ digits: Int) -> String {
        guard isFinite else { return "–" }
        let scale = (0..<digits).reduce(1.0) { power, _ in power * 10 }
        let scaled = Int64((magnitude * scale).rounded())
        let whole = "\(self < 0 && scaled > 0 ? "-" : "")\(scaled / Int64(scale))"
        guard digits > 0 else { return whole }
        let fraction = String(scaled % Int64(scale))
        return whole + "." + String(repeating: "0", count: digits - fraction.count) + fraction
    }

    /// The number with about three significant digits.
    var short: String { fixed(magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0) }

    /// Seconds with their unit.
    var asTime: String {
        if self < 1e-3 { return (self * 1e6).short + " µs" }
        if self < 1 { return (self * 1e3).short + " ms" }
        return short + " s"
    }
}

extension Int64 {
    /// The number in groups of three digits.
    var grouped: String {
        let digits = Array(String(magnitude))
        var text = self < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return text
    }

    /// Bytes in megabytes.
    var asMegabytes: String { (Double(self) / 1_000_000).fixed(1) + " MB" }
}
