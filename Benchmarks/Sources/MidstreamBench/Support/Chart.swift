internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Lines over an axis, as an SVG image that can be read on light and on dark pages.
struct Chart {
    struct Line {
        var name: String
        var points: [(x: Double, y: Double)]
        /// Whether the other lines are compared with this one.
        var isReference = false
    }

    var title: String
    var xTitle: String
    var yTitle: String
    var lines: [Line]
    /// The places where something begins or ends, and its name.
    var marks: [(x: Double, name: String)] = []
    /// Whether equal distances upwards are equal factors.
    var isLogarithmic = false
    /// The texts of the numbers at the axes.
    var xLabel: (Double) -> String = { $0.fixed(0) }
    var yLabel: (Double) -> String = { $0.short }

    private static let colors = [
        "#4269d0", "#efb118", "#ff725c", "#3ca951", "#a463f2", "#9c6b4e", "#6cc5b0", "#ff8ab7", "#97bbf5", "#9498a0",
    ]
    private static let size = (width: 900.0, height: 420.0)
    private static let margin = (left: 70.0, right: 320.0, top: 44.0, bottom: 50.0)

    /// Writes the image.
    func write(to path: String) throws {
        guard let file = fopen(path, "w") else {
            throw SQLiteError(code: .cannotOpen, message: "cannot write \(path)")
        }
        defer { fclose(file) }
        fputs(svg, file)
    }

    private var svg: String {
        let points = lines.flatMap(\.points)
        let xs = (points.map(\.x).min() ?? 0)...max(points.map(\.x).max() ?? 1, (points.map(\.x).min() ?? 0) + 1e-9)
        let ticks = yTicks(points.map(\.y))
        let ys = (ticks.first ?? 0)...(ticks.last ?? 1)
        let (size, margin) = (Self.size, Self.margin)
        let plot = (width: size.width - margin.left - margin.right, height: size.height - margin.top - margin.bottom)
        func x(_ value: Double) -> Double {
            margin.left + (value - xs.lowerBound) / (xs.upperBound - xs.lowerBound) * plot.width
        }
        func y(_ value: Double) -> Double {
            let (low, high) = (scaled(ys.lowerBound), scaled(ys.upperBound))
            return margin.top + plot.height - (scaled(value) - low) / (high - low) * plot.height
        }
        var parts = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(size.width.fixed(0)) \(size.height.fixed(0))" \
            font-family="system-ui, sans-serif" font-size="13">
            <style>text{fill:#24292f}.grid{stroke:#8886;stroke-width:1}.line{fill:none;stroke-width:2.2}\
            @media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>
            """,
            text(title, margin.left, 22, size: 16),
            text(xTitle, margin.left + plot.width / 2, size.height - 10, anchor: "middle"),
            text(yTitle, margin.left - 56, margin.top - 8),
        ]
        for tick in ticks {
            let height = y(tick).fixed(1)
            parts.append(
                "<line class=\"grid\" x1=\"\(margin.left.fixed(1))\" x2=\"\((margin.left + plot.width).fixed(1))\" "
                    + "y1=\"\(height)\" y2=\"\(height)\"/>"
            )
            parts.append(text(yLabel(tick), margin.left - 8, y(tick) + 4, anchor: "end"))
        }
        let xStep = Self.step(xs.upperBound - xs.lowerBound, in: 6)
        var value = (xs.lowerBound / xStep).rounded(.up) * xStep
        while value <= xs.upperBound * (1 + 1e-9) {
            parts.append(text(xLabel(value), x(value), margin.top + plot.height + 20, anchor: "middle"))
            value += xStep
        }
        for mark in marks {
            let place = x(mark.x).fixed(1)
            parts.append(
                "<line class=\"grid\" stroke-dasharray=\"2 3\" x1=\"\(place)\" x2=\"\(place)\" y1=\"\(margin.top.fixed(1))\" "
                    + "y2=\"\((margin.top + plot.height).fixed(1))\"/>"
            )
            parts.append(text(mark.name, x(mark.x) + 4, margin.top + 12, size: 11))
        }
        for (index, line) in lines.enumerated() {
            let color = line.isReference ? "#8b949e" : Self.colors[index % Self.colors.count]
            let path = line.points.map { "\(x($0.x).fixed(1)),\(y(max($0.y, ys.lowerBound)).fixed(1))" }
            let dashes = line.isReference ? " stroke-dasharray=\"5 4\"" : ""
            parts.append(
                "<polyline class=\"line\" stroke=\"\(color)\"\(dashes) points=\"\(path.joined(separator: " "))\"/>"
            )
            let (left, height) = (margin.left + plot.width + 16, margin.top + 8 + 20 * Double(index))
            parts.append(
                "<line stroke=\"\(color)\" stroke-width=\"3\"\(dashes) x1=\"\(left.fixed(1))\" "
                    + "x2=\"\((left + 22).fixed(1))\" y1=\"\(height.fixed(1))\" y2=\"\(height.fixed(1))\"/>"
            )
            parts.append(text(line.name, left + 28, height + 4))
        }
        return parts.joined(separator: "\n") + "\n</svg>\n"
    }

    private func scaled(_ value: Double) -> Double { isLogarithmic ? log10(value) : value }

    /// The values that have a line across. They span all that is shown, and a little more.
    private func yTicks(_ values: [Double]) -> [Double] {
        let high = values.max() ?? 1
        if isLogarithmic {
            let low = values.filter { $0 > 0 }.min() ?? high / 10
            let decades = Int(log10(low).rounded(.down))...Int(log10(high).rounded(.up))
            let marks = decades.flatMap { decade in [1, 2, 5].map { $0 * pow(10, Double(decade)) } }
            let first = marks.lastIndex { $0 <= low } ?? 0
            let last = marks.firstIndex { $0 >= high } ?? marks.count - 1
            return Array(marks[first...max(last, first)])
        }
        let step = Self.step(high, in: 6)
        return (0...Int((high / step).rounded(.up))).map { Double($0) * step }
    }

    /// A round number that fits into a length about the given number of times.
    private static func step(_ length: Double, in parts: Double) -> Double {
        let rough = max(length, 1e-9) / parts
        let power = pow(10, log10(rough).rounded(.down))
        return ([1, 2, 5, 10].first { $0 * power >= rough } ?? 10) * power
    }

    private func text(_ words: String, _ x: Double, _ y: Double, anchor: String = "start", size: Int = 13) -> String {
        let escaped = words.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
        return
            "<text x=\"\(x.fixed(1))\" y=\"\(y.fixed(1))\" text-anchor=\"\(anchor)\" font-size=\"\(size)\">\(escaped)</text>"
    }
}
