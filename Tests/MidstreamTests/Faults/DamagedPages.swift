#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The pages of a file whose rows have a text "row 17 000…", each with its number. Tests overwrite pages with garbage.
struct DamagedPages {
    let path: String
    let pageSize: Int
    private let bytes: [UInt8]

    init(path: String, pageSize: Int) {
        self.path = path
        self.pageSize = pageSize
        bytes = Files.bytes(path)
    }

    /// The pages, numbered from 0, except the first.
    var all: Range<Int> { 1..<(bytes.count / pageSize) }

    func bytes(of page: Int) -> ArraySlice<UInt8> { bytes[(page * pageSize)...].prefix(pageSize) }

    /// The kind of a b-tree page.
    ///
    /// Source: <https://www.sqlite.org/fileformat.html#b_tree_pages>.
    enum Kind: UInt8 {
        case indexInterior = 0x02
        case tableInterior = 0x05
        case indexLeaf = 0x0a
        case tableLeaf = 0x0d
    }

    func kind(_ page: Int) -> Kind? { bytes(of: page).first.flatMap(Kind.init) }

    /// The numbers of a page's rows.
    func rows(_ page: Int) -> [Int64] {
        guard let kind = kind(page), kind != .tableInterior else { return [] }
        return cells(of: page).compactMap { cell in
            let text = String(decoding: bytes[cell...].prefix(100).map { $0 < 0x80 ? $0 : 0x20 }, as: UTF8.self)
            let pieces = text.split(separator: "row ", maxSplits: 1, omittingEmptySubsequences: false)
            return pieces.count == 2 ? Int64(pieces[1].prefix { $0.isNumber }) : nil
        }
    }

    /// Where the cells of a page are in the file. Whatever else is on the page is left from former content.
    private func cells(of page: Int) -> [Int] {
        let isInterior = [.indexInterior, .tableInterior].contains(kind(page))
        let pointers = page * pageSize + (isInterior ? 12 : 8)
        return (0..<integer(page * pageSize + 3, 2)).map { page * pageSize + integer(pointers + 2 * $0, 2) }
    }

    private func integer(_ offset: Int, _ length: Int) -> Int {
        bytes[offset..<(offset + length)].reduce(0) { $0 << 8 | Int($1) }
    }

    /// The leaf with a row; 0 if there is none.
    func leaf(of row: Int64) -> Int {
        all.first { [.tableLeaf, .indexLeaf].contains(kind($0)) && rows($0).contains(row) } ?? 0
    }

    /// The pages below an interior page.
    func children(of page: Int) -> [Int] {
        (cells(of: page).map { integer($0, 4) } + [integer(page * pageSize + 8, 4)]).map { $0 - 1 }
    }

    /// An overflow page in the middle of a row, with nothing but zeros. The row's last page would not do, since nothing
    /// would tell that it has changed.
    var overflow: Int? {
        let zeros = [UInt8](repeating: 0x30, count: pageSize - 4)
        return all.first {
            bytes(of: $0).dropFirst(4).elementsEqual(zeros) && !bytes(of: $0).prefix(4).allSatisfy { $0 == 0 }
        }
    }

    /// - Returns: Whether all pages could be overwritten.
    func overwrite(_ pages: [Int]) -> Bool {
        let file = open(path, O_WRONLY)
        defer { close(file) }
        let garbage = [UInt8](repeating: 0xff, count: pageSize)
        return pages.allSatisfy { pwrite(file, garbage, garbage.count, off_t($0 * pageSize)) == garbage.count }
    }
}
