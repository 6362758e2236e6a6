internal import SQLiteC

/// A query that a virtual table is asked to plan: the constraints and the order that SQLite would like, and the table's
/// answers to them.
///
/// Source: <https://www.sqlite.org/vtab.html#the_xbestindex_method>.
public struct IndexInfo {
    let pointer: UnsafeMutablePointer<sqlite3_index_info>

    /// A term `column operator value` of the WHERE clause.
    public struct Constraint {
        /// The column's index; -1 is the rowid.
        public let column: Int
        /// The operator.
        public let comparison: Comparison
        /// Whether the value is known when the table is asked for rows.
        public let isUsable: Bool
    }

    /// The operator of a constraint.
    public struct Comparison: RawRepresentable, Hashable, Sendable {
        /// SQLite's number.
        public let rawValue: UInt8
        /// Wraps SQLite's number.
        public init(rawValue: UInt8) { self.rawValue = rawValue }
        /// `=`
        public static let equal = Comparison(rawValue: UInt8(SQLITE_INDEX_CONSTRAINT_EQ))
        /// `>`
        public static let greater = Comparison(rawValue: UInt8(SQLITE_INDEX_CONSTRAINT_GT))
        /// `<=`
        public static let lessOrEqual = Comparison(rawValue: UInt8(SQLITE_INDEX_CONSTRAINT_LE))
        /// `<`
        public static let less = Comparison(rawValue: UInt8(SQLITE_INDEX_CONSTRAINT_LT))
        /// `>=`
        public static let greaterOrEqual = Comparison(rawValue: UInt8(SQLITE_INDEX_CONSTRAINT_GE))
        /// `LIKE`
        public static let like = Comparison(rawValue: 65)
        /// `GLOB`
        public static let glob = Comparison(rawValue: 66)
        /// `IS NULL` (3.21)
        public static let isNull = Comparison(rawValue: 71)
        /// `IS` another value, which may be NULL (3.21)
        public static let notDistinct = Comparison(rawValue: 72)
    }

    /// Whether LIKE and GLOB match patterns in blobs. The library may be built without that.
    public static let patternsMatchBlobs = Library.answer(to: "x'61' GLOB 'a' OR x'61' LIKE 'a'") ?? true

    /// A term of the ORDER BY clause.
    public struct OrderTerm {
        /// The column's index; -1 is the rowid.
        public let column: Int
        /// Whether the order descends.
        public let isDescending: Bool
    }

    /// The number of constraints.
    public var constraintCount: Int { Int(pointer.pointee.nConstraint) }

    /// The constraint at `index`.
    public func constraint(at index: Int) -> Constraint {
        precondition(index >= 0 && index < constraintCount, "no such constraint")
        let constraint = pointer.pointee.aConstraint[index]
        return Constraint(
            column: Int(constraint.iColumn),
            comparison: Comparison(rawValue: constraint.op),
            isUsable: constraint.usable != 0
        )
    }

    /// The collation by which the constraint at `index` compares; `nil` if SQLite cannot tell (before 3.22).
    public func collation(at index: Int) -> String? {
        precondition(index >= 0 && index < constraintCount, "no such constraint")
        return midstream_vtab_collation(pointer, Int32(index)).map { String(cString: $0) }
    }

    /// Whether the constraint at `index` stands for an IN; `nil` if SQLite cannot tell (before 3.38).
    ///
    /// The values of an IN come one by one. SQLite then checks each value with the column's own affinity, not with that
    /// of the subquery's column.
    public func isMembership(at index: Int) -> Bool? {
        precondition(index >= 0 && index < constraintCount, "no such constraint")
        let answer = midstream_vtab_is_in(pointer, Int32(index))
        return answer < 0 ? nil : answer != 0
    }

    /// The order that the statement would like.
    public var order: [OrderTerm] {
        (0..<Int(pointer.pointee.nOrderBy)).map {
            let term = pointer.pointee.aOrderBy[$0]
            return OrderTerm(column: Int(term.iColumn), isDescending: term.desc != 0)
        }
    }

    /// Whether one row is enough of rows that are equal in the columns of the order, as for DISTINCT. Also `false` if
    /// SQLite cannot tell (before 3.38).
    public var wantsDistinct: Bool { midstream_vtab_distinct(pointer) >= 2 }

    /// The columns that the statement uses, one bit for each. The highest bit stands for all columns from 63 on.
    public var usedColumns: UInt64 { pointer.pointee.colUsed }

    /// Asks for the value of the constraint at `index` as the argument `position` of the cursor's filter, from 0.
    ///
    /// - Parameters:
    ///   - index: The constraint, from 0.
    ///   - position: The argument, from 0.
    ///   - isChecked: Whether the table itself leaves out all rows that fail the constraint, so that SQLite need not
    ///     check.
    public func use(constraint index: Int, asArgument position: Int, isChecked: Bool = false) {
        precondition(index >= 0 && index < constraintCount, "no such constraint")
        pointer.pointee.aConstraintUsage[index].argvIndex = Int32(position + 1)
        pointer.pointee.aConstraintUsage[index].omit = isChecked ? 1 : 0
    }

    /// Sets a number that the cursor's filter gets, and by which it knows the plan.
    public func setPlan(_ number: Int) { pointer.pointee.idxNum = Int32(truncatingIfNeeded: number) }

    /// Says that rows come in the order that the statement would like.
    public func setOrderConsumed() { pointer.pointee.orderByConsumed = 1 }

    /// Sets the estimated cost, in SQLite's unit: about the number of rows that are looked at.
    public func setEstimatedCost(_ cost: Double) { pointer.pointee.estimatedCost = cost }

    /// Sets the estimated number of rows.
    public func setEstimatedRows(_ rows: Int64) { pointer.pointee.estimatedRows = rows }

    /// Says that there is at most one row.
    public func setUnique() { pointer.pointee.idxFlags |= SQLITE_INDEX_SCAN_UNIQUE }
}
