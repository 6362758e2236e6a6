import Testing

@testable import Midstream

@Suite struct OwnNameTests {
    /// An application may have names that begin so as well.
    @Test(arguments: [
        "midstream_", "midstream_notes", "midstream_ledger_", "midstream_ledger_x", "midstream_build_1_x", "ledger_1",
    ])
    func aTableOfTheApplicationsIsNotTheEngines(_ name: String) {
        #expect(!OwnNames.isTable(name))
        #expect(!OwnNames.tellsOfRows(name))
    }

    @Test(arguments: [
        "midstream_state", "Midstream_Claims", "midstream_ledger_17", "midstream_watermark_17", "midstream_build_17",
        "midstream_build_17_2", "midstream_build_17_2_merged", "midstream_build_17_edits",
    ])
    func aTableThatTellsOfRowsIsKnown(_ name: String) {
        #expect(OwnNames.isTable(name))
        #expect(OwnNames.tellsOfRows(name))
    }

    @Test(arguments: ["midstream_refused_t", "midstream_upgrades", "midstream_keys_3"])
    func aTableOfTheEnginesMayTellNothingOfRows(_ name: String) {
        #expect(OwnNames.isTable(name))
        #expect(!OwnNames.tellsOfRows(name))
    }

    @Test func aTriggerIsKnownByItsNumber() {
        #expect(OwnNames.isTrigger("midstream_insert_17"))
        #expect(OwnNames.isTrigger("midstream_begin_update_17"))
        #expect(!OwnNames.isTrigger("midstream_insert_t"))
        #expect(OwnNames.isFence("midstream_fence_delete_17"))
        #expect(!OwnNames.isFence("midstream_delete_17"))
    }
}
