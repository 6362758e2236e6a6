import Midstream
import SQLiteConnection
import Testing

/// An application's own tests pass with its tables whole, and just so with them stopped at any point of a migration. They
/// leave the same behind.
@Suite struct FrozenApplicationTests {
    @Test(arguments: ApplicationTest.all)
    func aTestOfAnApplicationPassesAtEveryShare(_ test: ApplicationTest) async throws {
        let whole = try await test.run(.whole)
        for share in ApplicationTest.Share.frozen {
            let found = try await test.run(share)
            #expect(found == whole, "\(share.testDescription) moved")
        }
    }
}
