/// The classes of bytes that SQLite's tokenizer knows, computed without a look-up table that has to be loaded.
enum ByteClass {
    /// Letters, digits, `_`, `$` and every byte of a character beyond ASCII.
    @inline(__always)
    static func isIdentifier(_ byte: UInt8) -> Bool {
        if byte >= 0x80 { return true }
        let mask: UInt64 = byte < 64 ? 0x03FF_0010_0000_0000 : 0x07FF_FFFE_87FF_FFFE
        return (mask &>> UInt64(byte & 63)) & 1 != 0
    }

    @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool {
        byte &- 0x30 < 10
    }

    @inline(__always)
    static func isHexDigit(_ byte: UInt8) -> Bool {
        isDigit(byte) || (byte | 0x20) &- 0x61 < 6
    }

    /// Space, tab, line feed, vertical tab, form feed and carriage return.
    @inline(__always)
    static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte &- 0x09 < 5
    }

    /// Makes an upper-case ASCII letter lower case; no other byte changes.
    @inline(__always)
    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte &- 0x41 < 26 ? byte | 0x20 : byte
    }
}
