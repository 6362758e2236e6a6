import Testing

@testable import Midstream

@Suite struct RecentPromotionTests {
    @Test func aCursorLearnsOfPromotionsThatFollowItsBirthAlone() {
        var recent = RecentPromotions()
        let first = recent.cursorOpened()
        recent.note(.rowID(1))
        let second = recent.cursorOpened()
        recent.note(.rowID(2))
        #expect(recent.contains(.rowID(1), since: first))
        #expect(recent.contains(.rowID(2), since: first))
        #expect(!recent.contains(.rowID(1), since: second))
        #expect(recent.contains(.rowID(2), since: second))
        #expect(!recent.contains(.rowID(3), since: first))
    }

    @Test func nothingIsKeptWhileNoCursorIsOpen() {
        var recent = RecentPromotions()
        recent.note(.rowID(1))
        let first = recent.cursorOpened()
        #expect(!recent.contains(.rowID(1), since: first))
        recent.note(.rowID(2))
        recent.cursorClosed()
        let second = recent.cursorOpened()
        #expect(!recent.contains(.rowID(2), since: second))
        #expect(!recent.contains(.rowID(2), since: first))
    }
}
