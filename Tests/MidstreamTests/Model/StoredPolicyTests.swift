import SQLiteConnection
import Testing

@testable import Midstream

/// What a policy for refused rows says of a row, as the target has stored it.
@Suite struct StoredPolicyTests {
    private static let row = RefusedRow(
        table: "t",
        sourceTable: "s",
        rowID: 1,
        values: [:],
        reason: SQLiteError(code: .constraintCheck, message: "CHECK constraint failed: a > 0")
    )

    @Test(
        arguments: [
            (.stop, .stop, false),
            (.setAside, .setAside, false),
            (.ask, .replace(["a": .integer(1)]), true),
        ] as [(RefusedRowPolicy.Stored, RefusedRowDecision, Bool)]
    )
    func aPolicyDecides(_ policy: RefusedRowPolicy.Stored, _ decision: RefusedRowDecision, _ readsRow: Bool) {
        var isRead = false
        let found = policy.decision(
            on: {
                isRead = true
                return Self.row
            },
            by: { _ in .replace(["a": .integer(1)]) }
        )
        #expect(found == decision)
        #expect(isRead == readsRow)
    }

    @Test func aTableStopsWhereTheApplicationCannotBeAsked() {
        let decision = RefusedRowPolicy.Stored.ask.decision(
            on: {
                Issue.record("nobody needs the row")
                return Self.row
            },
            by: nil
        )
        #expect(decision == .stop)
    }

    /// The numbers stand in files.
    @Test(arguments: [(.stop, 0), (.setAside, 1), (.ask { _ in .stop }, 2)] as [(RefusedRowPolicy, Int64)])
    func aPolicyIsStoredAsANumber(_ policy: RefusedRowPolicy, _ number: Int64) {
        #expect(policy.stored.rawValue == number)
        #expect((policy.handler != nil) == policy.stored.asks)
    }
}
