import Testing

@testable import Midstream

@Suite struct LifeCycleTests {
    /// Each state, and the states that may follow it.
    private static let following: [(state: LifeCycle, next: [LifeCycle])] = [
        (.starting, [.copying]),
        (.copying, [.passed, .copied, .starting, .returning(stage: 0), .returned]),
        (.passed, [.copied, .starting, .returning(stage: 0), .returned]),
        (.copied, [.retiring, .done]),
        (.retiring, [.done]),
        (.done, []),
        (.returning(stage: 0), [.returning(stage: 1), .returned]),
        (.returning(stage: 1), [.returning(stage: 2), .returned]),
        (.returned, [.opening]),
        (.opening, []),
    ]

    @Test func aStateIsFollowedByTheseAlone() {
        let all = Self.following.map(\.state) + [.returning(stage: 2)]
        for (state, next) in Self.following {
            #expect(all.filter(state.mayBecome) == all.filter(next.contains), "\(state)")
        }
    }

    @Test(
        arguments: [
            (MigrationPhase.starting, nil, nil, LifeCycle.starting),
            (.copying, nil, nil, .copying),
            (.copying, 7, nil, .copying),
            (.copying, Int64.max, nil, .passed),
            (.copying, nil, 0, .returning(stage: 0)),
            (.copying, 7, 3, .returning(stage: 3)),
            (.copied, Int64.max, nil, .copied),
            (.copied, Int64.max, 0, .returned),
            (.copied, Int64.max, Int64.max, .opening),
            (.retiring, Int64.max, nil, .retiring),
            (.done, Int64.max, nil, .done),
        ] as [(MigrationPhase, Int64?, Int64?, LifeCycle)]
    )
    func whatIsStoredTellsTheState(
        _ phase: MigrationPhase,
        _ watermark: Int64?,
        _ stage: Int64?,
        _ life: LifeCycle
    ) {
        var record = TableRecord(
            id: 1,
            migration: 1,
            target: "t",
            source: "s",
            phase: phase,
            watermark: watermark,
            copied: 0,
            settled: 0
        )
        record.undoStage = stage
        #expect(record.life == life)
    }
}
