internal import SQLText

/// A table that is to move, as `--table` names it: `TARGET` or `TARGET=SOURCE`. A name with a `=` in it must be in
/// double quotes, as in SQL.
struct TableChoice: Hashable, Sendable {
    var target: String
    var source: String

    /// Whether a name is that of the target's table.
    func isTarget(_ name: String) -> Bool { SQLIdentifier.equal(name, target) }

    init(target: String, source: String) {
        self.target = target
        self.source = source
    }

    init?(_ text: String) {
        let start = Self.endOfQuotedName(text) ?? text.startIndex
        guard let equals = text[start...].firstIndex(of: "=") else {
            guard !text.isEmpty else { return nil }
            self.init(target: Self.name(text), source: Self.name(text))
            return
        }
        let target = Self.name(String(text[..<equals]))
        let source = Self.name(String(text[text.index(after: equals)...]))
        guard !target.isEmpty, !source.isEmpty else { return nil }
        self.init(target: target, source: source)
    }

    /// The end of the name in double quotes with which the text begins, if a `=` or nothing follows the name.
    private static func endOfQuotedName(_ text: String) -> String.Index? {
        guard let end = SQLTokenizer(text).first(where: { _ in true }), end.kind == .quotedIdentifier,
            text.hasPrefix("\"")
        else { return nil }
        let index = text.utf8.index(text.startIndex, offsetBy: end.range.upperBound)
        return index == text.endIndex || text[index] == "=" ? index : nil
    }

    private static func name(_ text: String) -> String {
        endOfQuotedName(text) == text.endIndex ? SQLIdentifier.unquoted(text) : text
    }
}
