/// An object of the source that is about a table which moves, and that stays in the source.
struct LeftObject: Hashable {
    /// `view`, `trigger` or `virtual table`.
    var kind: String
    var name: String

    var text: String { "\(kind) \(name)" }
    var json: JSON { JSON(object: ["type": JSON(kind), "name": JSON(name)]) }
}
