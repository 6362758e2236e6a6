#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #else
        import Musl
    #endif

    /// What the process has written into its memory.
    enum ProcessMemory {
        private static let chunk = 1 << 20
        /// So many bytes of a chunk are read again with the next chunk, for patterns that lie across both.
        private static let overlap = 256

        /// How often each of the patterns is in the process's writable memory.
        ///
        /// - Parameter patterns: For each pattern, its length, and a closure that computes its byte at an index. Since
        ///   the bytes are computed each time, the pattern as a whole is nowhere in memory.
        static func count(_ patterns: [(count: Int, byte: (Int) -> UInt8)]) -> [Int] {
            let size = chunk + overlap
            guard let buffer = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) else {
                return []
            }
            defer { munmap(buffer, size) }
            let bytes = buffer.assumingMemoryBound(to: UInt8.self)
            let own = UInt(bitPattern: buffer)..<(UInt(bitPattern: buffer) + UInt(size))
            var counts = patterns.map { _ in 0 }
            let memory = open("/proc/self/mem", O_RDONLY)
            defer { close(memory) }
            for region in writableRegions().flatMap({ $0.without(own) }) {
                var start = region.lowerBound
                while start < region.upperBound {
                    let length = min(size, Int(region.upperBound - start))
                    let read = pread(memory, buffer, length, off_t(start))
                    if read > 0 {
                        // A pattern that begins in the overlap belongs to the next chunk.
                        let isLast = length < size || start + UInt(size) >= region.upperBound
                        for (index, pattern) in patterns.enumerated() {
                            counts[index] += count(pattern, bytes, read, startsBelow: isLast ? read : chunk)
                        }
                    }
                    start += UInt(chunk)
                }
            }
            return counts
        }

        private static func count(
            _ pattern: (count: Int, byte: (Int) -> UInt8),
            _ bytes: UnsafePointer<UInt8>,
            _ length: Int,
            startsBelow end: Int
        ) -> Int {
            var found = 0
            var next = 0
            let last = min(end, length - pattern.count + 1)
            let first = Int32(pattern.byte(0))
            while next < last, let hit = memchr(bytes + next, first, last - next) {
                let start = UnsafePointer(hit.assumingMemoryBound(to: UInt8.self)) - bytes
                var matched = 1
                while matched < pattern.count, bytes[start + matched] == pattern.byte(matched) { matched += 1 }
                if matched == pattern.count { found += 1 }
                next = start + 1
            }
            return found
        }

        private static func writableRegions() -> [Range<UInt>] {
            guard let file = fopen("/proc/self/maps", "r") else { return [] }
            defer { fclose(file) }
            var regions: [Range<UInt>] = []
            var line = [CChar](repeating: 0, count: 4096)
            while fgets(&line, Int32(line.count), file) != nil {
                let words = line.prefix { $0 != 0 }.split(separator: 0x20, maxSplits: 2)
                guard words.count == 3, words[1].dropFirst().first == CChar(UInt8(ascii: "w")) else { continue }
                let ends = words[0].split(separator: CChar(UInt8(ascii: "-"))).compactMap {
                    UInt(String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self), radix: 16)
                }
                guard ends.count == 2, ends[0] < ends[1] else { continue }
                regions.append(ends[0]..<ends[1])
            }
            return regions
        }
    }

    extension Range<UInt> {
        fileprivate func without(_ hole: Range<UInt>) -> [Range<UInt>] {
            guard overlaps(hole) else { return [self] }
            return [
                lowerBound..<Swift.max(lowerBound, hole.lowerBound),
                Swift.min(upperBound, hole.upperBound)..<upperBound,
            ].filter { !$0.isEmpty }
        }
    }
#endif
