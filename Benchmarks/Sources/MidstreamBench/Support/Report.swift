#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// Prints tables, aligned for a terminal or in Markdown.
struct Report {
    var markdown: Bool

    /// Prints a heading and the text below it.
    func section(_ title: String, _ text: String = "") {
        print(markdown ? "\n## \(title)\n" : "\n\(title)")
        if !text.isEmpty { print(text + (markdown ? "\n" : "")) }
        flush()
    }

    /// Prints a table whose first column holds names, the others figures.
    func table(_ columns: [String], _ rows: [[String]]) {
        let widths = columns.indices.map { column in
            ([columns] + rows).map { $0[column].count }.max() ?? 0
        }
        func line(_ cells: [String]) -> String {
            let padded = zip(cells, widths).enumerated().map { index, cell in
                let space = String(repeating: " ", count: cell.1 - cell.0.count)
                return index == 0 ? cell.0 + space : space + cell.0
            }
            return markdown ? "| " + padded.joined(separator: " | ") + " |" : "  " + padded.joined(separator: "  ")
        }
        print(line(columns))
        if markdown {
            let marks = widths.enumerated().map {
                $0 == 0 ? String(repeating: "-", count: $1 + 2) : String(repeating: "-", count: $1 + 1) + ":"
            }
            print("|" + marks.joined(separator: "|") + "|")
        }
        for row in rows { print(line(row)) }
        flush()
    }

    /// Says on the error output what is going on.
    static func note(_ text: String) {
        let line = "midstream-bench: \(text)\n"
        _ = write(2, line, line.utf8.count)
    }

    private func flush() {
        fflush(nil)
    }
}
