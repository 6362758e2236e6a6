import Testing

@testable import Midstream

@Suite struct FilePathTests {
    @Test(arguments: [
        ("a.db", ".", "a.db"), ("/a.db", "/", "a.db"), ("/x/y/a.db", "/x/y", "a.db"), ("x/", "x", ""),
        // To Swift, a slash and the accent after it are one character.
        ("/x/\u{301}a", "/x", "\u{301}a"),
    ])
    func aPathHasAFolderAndAName(_ path: String, _ folder: String, _ name: String) {
        #expect(FilePath.split(path) == (folder, name))
    }

    @Test(arguments: [
        ("/x/a.db", "/x/b.db", "a.db"), ("/x/y/a.db", "/x/b.db", "y/a.db"), ("/a.db", "/x/y/b.db", "../../a.db"),
        ("/x/z/a.db", "/x/y/b.db", "../z/a.db"),
        // Two spellings of one letter are two folders, although Swift takes the spellings for equal.
        ("/\u{e9}/a.db", "/e\u{301}/b.db", "../\u{e9}/a.db"),
    ])
    func aPathIsToldFromTheFolderOfAFile(_ path: String, _ file: String, _ relative: String) {
        #expect(Array(FilePath.relative(path, toFolderOf: file).utf8) == Array(relative.utf8))
    }

    @Test func aRelativePathIsFoundAgain() throws {
        let folder = TemporaryFolder()
        let (file, other) = (folder.path + "/target.db", folder.path + "/source.db")
        let resolved = FilePath.resolved(other)
        let relative = FilePath.relative(resolved, toFolderOf: FilePath.resolved(file))
        #expect(relative == "source.db")
        #expect(FilePath.absolute(relative, fromFolderOf: FilePath.resolved(file)) == resolved)
        #expect(FilePath.absolute("/elsewhere/a.db", fromFolderOf: file) == "/elsewhere/a.db")
    }
}
