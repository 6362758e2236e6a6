/// A JSON text that is being put together. Keys keep the order in which they are added.
struct JSON {
    private(set) var bytes: [UInt8] = []

    /// `null`
    static let null = JSON(raw: "null")

    init() {}

    init(raw: String) {
        bytes = Array(raw.utf8)
    }

    init(_ value: Int64) { self.init(raw: String(value)) }
    init(_ value: Int) { self.init(raw: String(value)) }
    init(_ value: Bool) { self.init(raw: value ? "true" : "false") }

    /// The shortest number that reads as the same double. JSON has no infinity, so infinity is written as a number that
    /// is too large, as SQLite does it.
    init(_ value: Double) {
        if value.isNaN {
            self.init(raw: "null")
        } else if value.isInfinite {
            self.init(raw: value < 0 ? "-1e999" : "1e999")
        } else {
            self.init(raw: "\(value)")
        }
    }

    init(_ text: String) {
        bytes.reserveCapacity(text.utf8.count + 2)
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 { Self.append(byte, to: &bytes) }
        bytes.append(UInt8(ascii: "\""))
    }

    init(_ text: String?) {
        self = text.map { JSON($0) } ?? .null
    }

    init(_ value: Int64?) {
        self = value.map { JSON($0) } ?? .null
    }

    /// `[a,b]`
    init(array elements: some Sequence<JSON>) {
        bytes = [UInt8(ascii: "[")]
        for element in elements {
            if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
            bytes += element.bytes
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// `{"a":1,"b":2}`
    init(object members: KeyValuePairs<String, JSON>) {
        self.init(members: members.map { ($0.key, $0.value) })
    }

    init(members: [(String, JSON)]) {
        bytes = [UInt8(ascii: "{")]
        for (key, value) in members {
            if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
            bytes += JSON(key).bytes
            bytes.append(UInt8(ascii: ":"))
            bytes += value.bytes
        }
        bytes.append(UInt8(ascii: "}"))
    }

    var text: String { String(decoding: bytes, as: UTF8.self) }

    private static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
        case 0x0a: bytes += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
        case 0x0d: bytes += [UInt8(ascii: "\\"), UInt8(ascii: "r")]
        case 0x09: bytes += [UInt8(ascii: "\\"), UInt8(ascii: "t")]
        case 0..<0x20:
            bytes += "\\u00".utf8
            bytes += Hex.digits(of: byte)
        default: bytes.append(byte)
        }
    }
}

/// Bytes as hexadecimal digits.
enum Hex {
    private static let alphabet = Array("0123456789abcdef".utf8)

    static func digits(of byte: UInt8) -> [UInt8] {
        [alphabet[Int(byte >> 4)], alphabet[Int(byte & 15)]]
    }

    static func text(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.flatMap(digits), as: UTF8.self)
    }
}
