import Midstream
import SQLiteConnection
import Testing

/// An application's own tests pass with its tables whole, and just so with them stopped at any point of a migration. They
/// leave the same behind.
@Suite struct FrozenApplicationTests {
    @Test(arguments: ApplicationTest.all)
    func aTestOfAnApplicationPassesAtEveryShare(_ test: ApplicationTest) async throws {
        let whole = try await test.run(.whole)
        let number = ApplicationTest.all.firstIndex { $0.name == test.name } ?? 0
        for share in Sample.part(of: ApplicationTest.Share.frozen, from: number) {
            let found = try await test.run(share)
            #expect(found == whole, "\(share.testDescription) moved")
        }
    }
}
