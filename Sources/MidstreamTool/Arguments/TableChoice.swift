/// A table that is to move, as `--table` names it: `TARGET` or `TARGET=SOURCE`.
struct TableChoice: Hashable, Sendable {
    var target: String
    var source: String

    init(target: String, source: String) {
        self.target = target
        self.source = source
    }

    init?(_ text: String) {
        guard let equals = text.firstIndex(of: "=") else {
            guard !text.isEmpty else { return nil }
            self.init(target: text, source: text)
            return
        }
        let target = String(text[..<equals])
        let source = String(text[text.index(after: equals)...])
        guard !target.isEmpty, !source.isEmpty else { return nil }
        self.init(target: target, source: source)
    }
}
