/// A part of a statement throughout which the same common tables are visible.
public struct Scope: Hashable, Sendable {
    /// The scope around this one; nil for the statement itself.
    public let parent: Int?
    /// The common tables of the WITH that belongs to the scope. All of them are visible in each other's bodies.
    public internal(set) var commonTables: [CommonTable] = []
}
