import SQLiteFeatures

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The scripts that the tests run.
///
/// `MIDSTREAM_SQLLOGIC` names a file or a folder of scripts: all of it is run in full. Otherwise it is the folder
/// `sqllogictest` below the one that `MIDSTREAM_SHARED` names, of which samples are run, chosen by
/// `MIDSTREAM_SQLLOGIC_SEED`; with `MIDSTREAM_SQLLOGIC_FULL=1` all of it.
enum LogicFiles {
    static let isFull = chosen != nil || Files.environment("MIDSTREAM_SQLLOGIC_FULL") == "1"
    static let seed = Files.environment("MIDSTREAM_SQLLOGIC_SEED").flatMap { UInt64($0) } ?? 1
    static let folder = chosen ?? Files.environment("MIDSTREAM_SHARED").map { $0 + "/sqllogictest" }

    /// All modes, or those whose descriptions have one of the texts, parted by commas, in `MIDSTREAM_SQLLOGIC_MODES`.
    static var modes: [LogicMode] {
        guard let texts = Files.environment("MIDSTREAM_SQLLOGIC_MODES")?.split(separator: ",") else {
            return LogicMode.all
        }
        return LogicMode.all.filter { mode in texts.contains { "\(mode)".contains($0) } }
    }

    static let chosen = Files.environment("MIDSTREAM_SQLLOGIC").flatMap { $0.isEmpty ? nil : $0 }

    /// The paths of all scripts, sorted.
    static let all: [String] = folder.map { scripts(at: $0) } ?? []

    /// The scripts of this folder.
    static let own: [String] = scripts(at: #filePath.droppingLastComponent + "/Scripts")

    /// What `onlyif` and `skipif` may ask for: the engine, and what the linked library has.
    static let names: Set<String> = Set(
        ["sqlite"] + SQLiteFeature.allCases.filter(\.isAvailable).map { $0.rawValue.lowercased() }
    )

    /// Prints a line at once: a run takes minutes.
    static func say(_ line: String) {
        print("sqllogic: \(line)")
        fflush(nil)
    }

    static func script(_ path: String) throws -> LogicScript {
        let root = folder.map { $0 + "/" } ?? ""
        let name = path.hasPrefix(root) ? String(path.dropFirst(root.count)) : path.lastComponent
        return try LogicParser.parse(Files.bytes(path), name: name.isEmpty ? path.lastComponent : name, names: names)
    }

    /// A file itself, or the files of a folder and those below it whose names end as scripts' do.
    private static func scripts(at path: String) -> [String] {
        guard let folder = opendir(path) else { return Files.exists(path) ? [path] : [] }
        defer { closedir(folder) }
        var found: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard !name.hasPrefix(".") else { continue }
            let inner = path + "/" + name
            if isFolder(inner) {
                found += scripts(at: inner)
            } else if name.hasSuffix(".test") || name.hasSuffix(".slt") {
                found.append(inner)
            }
        }
        return found.sorted()
    }

    private static func isFolder(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}

extension String {
    fileprivate var lastComponent: String { split(separator: "/").last.map(String.init) ?? self }
    fileprivate var droppingLastComponent: String {
        lastIndex(of: "/").map { String(self[..<$0]) } ?? self
    }
}
