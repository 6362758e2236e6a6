import SQLiteConnection
import SQLiteFeatures

/// The values of one case. They are few, so that rows and statements meet.
///
/// The smallest integer is only a rowid: if another column has it as a real number, SQLite does not find the rowid by
/// it.
struct ValuePool {
    let values: [SQLiteValue]
    let rowIDs: [Int64]

    private static let candidates: [SQLiteValue] =
        [
            .null, 0, 1, 2, 3, 5, 10, -1, 1.0, 5.0, 2.5, -7.25, 1e15, "5", "5.0", "1", "1e1", "-1", "a",
            "A", "a ", "A  ", "b", "B", "abc", "ABC",
            "", " ", "é", "É", "o'clock", "%", "a_c", .blob([]), .blob([0]), .blob([0x35]), .blob([0x61]),
            .blob([0x27, 0xff]),
        ] + SQLiteFeature.rowIDsEqualToText.ifAvailable(["05", " 5"])

    private static let largest = SQLiteFeature.largestIntegersInRealColumns.ifAvailable(
        [.integer(.max), 9223372036854775807.0] as [SQLiteValue]
    )

    init(_ dice: Dice, hasLargest: Bool) {
        values =
            Array(dice.shuffled(Self.candidates + (hasLargest ? Self.largest : [])).prefix(dice.between(6, 20)))
            + (0..<dice.between(1, 8)).map { _ in .integer(Int64(dice.below(30))) }
        var rowIDs: [Int64] = (1...Int64(dice.between(4, 40))).map { $0 }
        if dice.percent(40) { rowIDs += [0, -1, -2, -5] }
        if dice.percent(15) { rowIDs += [.min, .min + 1] }
        if dice.percent(20) { rowIDs += [1 << 31, 1 << 40, 1 << 53 + 1] }
        self.rowIDs = rowIDs
    }
}
