/// Where a table stands in its life.
///
///     starting ──> copying ──> passed ──> copied ──> retiring ──> done
///
///     copying ──> copied                    the rest has moved, and is counted, in one transaction
///     copied ──> done                       source and target are one file
///     copying, passed ──> starting          the file is withdrawn
///     copying, passed ──> returning(0) ──> returning(1) ──> … ──> returned ──> opening
///     copying, passed ──> returned          no row is there to return
///
/// 1. `starting`: the target knows of the move. No row has moved, and no statement is shown the source's rows.
/// 2. `copying`: the pending rows are the source's rows above the watermark, except for those in the ledger.
/// 3. `passed`: no row is pending. The stepper has yet to count the source from its other end.
/// 4. `copied`: the target has as many rows as the source, and its guard triggers are gone. A reader may still need the source.
/// 5. `retiring`: no reader that begins now needs the source; readers that began earlier may.
/// 6. `done`: the source's part is over. The record stays for the tables that move beside this one.
/// 7. `returning`: the move was cancelled. An even stage collects the rows that are to return, an odd stage brings them back.
/// 8. `returned`: the target has none of the rows. The source still refuses writes.
/// 9. `opening`: the target has none of the rows, and the source may already take writes.
///
/// The target stores a state before the state's effect on the source. ``TableUpdate`` stores each state but the first one. In debug
/// builds it stops the process at a transition that is not in this list.
enum LifeCycle: Equatable, Sendable {
    case starting
    case copying
    case passed
    case copied
    case retiring
    case done
    case returning(stage: Int64)
    case returned
    case opening

    /// The value of `undo_stage` that means ``opening``.
    static let openingStage = Int64.max

    /// Whether a table may come from one state to another.
    func mayBecome(_ next: LifeCycle) -> Bool {
        switch (self, next) {
        case (.starting, .copying), (.copied, .retiring), (.copied, .done), (.retiring, .done): true
        case (.copying, .passed): true
        case (.copying, .copied), (.copying, .starting), (.copying, .returning(stage: 0)), (.copying, .returned): true
        case (.passed, .copied), (.passed, .starting), (.passed, .returning(stage: 0)), (.passed, .returned): true
        case (.returning(let stage), .returning(let other)): other == stage + 1
        case (.returning, .returned), (.returned, .opening): true
        default: false
        }
    }
}

extension TableRecord {
    var life: LifeCycle {
        switch (phase, undoStage) {
        case (.starting, _): .starting
        case (.copying, nil): isPassed ? .passed : .copying
        case (.copying, let stage?): .returning(stage: stage)
        case (.copied, nil): .copied
        case (.copied, let stage?): stage == LifeCycle.openingStage ? .opening : .returned
        case (.retiring, _): .retiring
        case (.done, _): .done
        }
    }

    /// Whether the stepper has passed all rows.
    var isPassed: Bool { watermark == .max }
    /// Whether rows move from the source to the target: `copying` or `passed`.
    var isMoving: Bool { phase == .copying && !isReturning }
    /// Whether the table was cancelled, and its rows return or have returned: `returning`, `returned` or `opening`.
    var isReturning: Bool { undoStage != nil }
    /// Whether the source has all rows again: `returned` or `opening`.
    var hasReturned: Bool { phase == .copied && isReturning }
    /// Whether the beginning of the move, or the end of its cancellation, was cut short: `starting`, `returned` or `opening`.
    var isHalfBegun: Bool { phase == .starting || hasReturned }
}
