/// A record whose answer is not what it must be.
struct LogicFailure: Sendable, CustomStringConvertible {
    var script: String
    /// Of the record; 0 for what is found after the last one.
    var line: Int
    var mode: String
    var sql: String
    var expected: String
    var got: String

    var description: String {
        """
        \(script):\(line), \(mode):
          \(sql.replacing("\n", with: "\n  "))
          expected: \(expected)
          got:      \(got)
        """
    }
}
