/// The records of a script that are for this engine, in their order.
struct LogicScript: Sendable {
    /// What reports call it.
    var name: String
    var records: [LogicRecord]
    /// How many records are for other engines, or need what the library lacks.
    var leftOut = 0

    var queryCount: Int { records.count { $0.isQuery } }
}
