/// A part of a statement in which the same common tables can be seen.
public struct Scope: Hashable, Sendable {
    /// The scope around it; nil for the statement itself.
    public let parent: Int?
    /// The common tables of a WITH that belongs to the scope. All of them are visible in each other's bodies.
    public internal(set) var commonTables: [CommonTable] = []
}
