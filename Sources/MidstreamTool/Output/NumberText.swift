/// Writes numbers for people.
enum NumberText {
    /// `1,234,567`
    static func grouped(_ number: Int64) -> String {
        let digits = Array(String(number.magnitude))
        var text = number < 0 ? "-" : ""
        for (offset, digit) in digits.enumerated() {
            if offset > 0, (digits.count - offset) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return text
    }

    /// A number with so many digits after the point, at most 9.
    static func fixed(_ number: Double, _ digits: Int) -> String {
        guard number.isFinite, abs(number) < 1e9 else { return "?" }
        let scale = (0..<digits).reduce(1.0) { scale, _ in scale * 10 }
        let scaled = Int64((abs(number) * scale).rounded())
        let whole = scaled / Int64(scale)
        let sign = number < 0 && scaled > 0 ? "-" : ""
        guard digits > 0 else { return "\(sign)\(whole)" }
        let fraction = String(scaled % Int64(scale))
        return "\(sign)\(whole)." + String(repeating: "0", count: digits - fraction.count) + fraction
    }

    /// `4.2 %`
    static func percent(_ fraction: Double) -> String { fixed(fraction * 100, 1) + " %" }

    /// `0.25 s`, `1 min 5 s`
    static func seconds(_ duration: Duration) -> String {
        let seconds = self.seconds(in: duration)
        if seconds < 60 { return fixed(seconds, seconds < 10 ? 2 : 1) + " s" }
        let whole = Int64(seconds.rounded())
        if whole < 3600 { return "\(whole / 60) min \(whole % 60) s" }
        return "\(whole / 3600) h \(whole % 3600 / 60) min"
    }

    static func seconds(in duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }

    /// `1 table`, `2 tables`
    static func count(_ number: Int64, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }
}
