/// One statement or query of a sqllogictest script, with what must come of it.
struct LogicRecord: Sendable {
    enum Sort: String, Sendable {
        case nosort, rowsort, valuesort
    }

    /// The values of a query's result, in the order of rows and then of columns.
    enum Values: Sendable, Equatable {
        case list([String])
        case hash(count: Int, md5: String)
    }

    struct Query: Sendable {
        /// A letter for each column: T, I or R.
        var types: String
        var sort: Sort
        /// Queries of one label give the same values.
        var label: String?
        /// `nil` where the script expects nothing but success.
        var expected: Values?
    }

    enum Expectation: Sendable {
        case success
        case failure
        case query(Query)
    }

    /// The line of `statement` or `query`, from 1.
    var line: Int
    var sql: String
    var expectation: Expectation

    var isQuery: Bool {
        if case .query = expectation { true } else { false }
    }
}
