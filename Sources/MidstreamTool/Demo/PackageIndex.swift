#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// The packages that apt knows of.
struct PackageIndex: Sendable {
    struct Package: Sendable {
        var name = ""
        var version = ""
        var section = "misc"
        var maintainer = ""
        var summary = ""
        var size: Int64 = 0
        var installedSize: Int64 = 0
        var dependencies: [Dependency] = []
    }

    struct Dependency: Sendable {
        var name: String
        /// A condition such as `>= 2.34`.
        var condition: String?
    }

    private(set) var packages: [Package] = []
    private var current = Package()

    /// Asks apt. There are no packages if there is no apt, or if apt has no lists.
    static func read() -> PackageIndex {
        var index = PackageIndex()
        guard let pipe = popen("apt-cache dumpavail 2>/dev/null", "r") else { return index }
        var rest: [UInt8] = []
        while let bytes = SystemCalls.read(fileno(pipe), atMost: 1 << 20), !bytes.isEmpty {
            rest += bytes
            guard let end = rest.lastIndex(of: 0x0a) else { continue }
            for line in rest[...end].split(separator: 0x0a, omittingEmptySubsequences: false) { index.add(line) }
            rest.removeFirst(end + 1)
        }
        pclose(pipe)
        index.finishPackage()
        return index
    }

    /// Takes one line of a control file.
    ///
    /// Source: <https://www.debian.org/doc/debian-policy/ch-controlfields.html>.
    mutating func add(_ line: ArraySlice<UInt8>) {
        guard let first = line.first else {
            // Splitting a block of lines leaves an empty piece at its end, too.
            return
        }
        switch first {
        case UInt8(ascii: "P"):
            if let name = Self.value(of: "Package", in: line) {
                finishPackage()
                current.name = name
            } else if let list = Self.value(of: "Pre-Depends", in: line) {
                current.dependencies += Self.dependencies(list)
            }
        case UInt8(ascii: "V"): Self.value(of: "Version", in: line).map { current.version = $0 }
        case UInt8(ascii: "S"):
            if let section = Self.value(of: "Section", in: line) { current.section = section }
            if let size = Self.value(of: "Size", in: line) { current.size = Int64(size) ?? 0 }
        case UInt8(ascii: "I"):
            Self.value(of: "Installed-Size", in: line).map { current.installedSize = Int64($0) ?? 0 }
        case UInt8(ascii: "M"): Self.value(of: "Maintainer", in: line).map { current.maintainer = $0 }
        case UInt8(ascii: "D"):
            if let list = Self.value(of: "Depends", in: line) { current.dependencies += Self.dependencies(list) }
            if let summary = Self.value(of: "Description", in: line) { current.summary = summary }
        default: break
        }
    }

    mutating func finishPackage() {
        if !current.name.isEmpty { packages.append(current) }
        current = Package()
    }

    private static func value(of field: StaticString, in line: ArraySlice<UInt8>) -> String? {
        let count = field.utf8CodeUnitCount
        guard line.count > count, line[line.startIndex + count] == UInt8(ascii: ":") else { return nil }
        let isEqual = field.withUTF8Buffer { line.prefix(count).elementsEqual($0) }
        guard isEqual else { return nil }
        return String(decoding: line.dropFirst(count + 1).drop { $0 == 0x20 }, as: UTF8.self)
    }

    /// Parses `a (>= 1), b | c:any`. Of alternatives it takes the first.
    static func dependencies(_ list: String) -> [Dependency] {
        list.utf8.split(separator: UInt8(ascii: ",")).compactMap { item in
            let first = item.split(separator: UInt8(ascii: "|")).first ?? item
            let words = first.drop { $0 == 0x20 }
            let name = words.prefix { $0 != 0x20 && $0 != UInt8(ascii: "(") && $0 != UInt8(ascii: ":") }
            guard !name.isEmpty else { return nil }
            var condition: String?
            if let open = words.firstIndex(of: UInt8(ascii: "(")), let close = words.firstIndex(of: UInt8(ascii: ")")),
                open < close
            {
                condition = String(decoding: words[words.index(after: open)..<close], as: UTF8.self)
            }
            return Dependency(name: String(decoding: name, as: UTF8.self), condition: condition)
        }
    }
}
