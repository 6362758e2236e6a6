internal import SQLiteC

/// A value that SQLite owns: an argument of a function or of a virtual table's filter.
///
/// The reference is valid only during the call that received it.
public struct ValueReference {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
    }

    /// The value's storage class, before any conversion.
    public var storageClass: StorageClass {
        StorageClass(rawValue: sqlite3_value_type(pointer)) ?? .null
    }

    /// The value's storage class after conversion as by a column of numbers. Text that is a number becomes a number, in
    /// the value itself.
    ///
    /// Source: <https://www.sqlite.org/c3ref/value_blob.html>, `sqlite3_value_numeric_type`.
    public var numericStorageClass: StorageClass {
        StorageClass(rawValue: sqlite3_value_numeric_type(pointer)) ?? .null
    }

    /// The value as text, converted as CAST does.
    public var text: String {
        guard let text = sqlite3_value_text(pointer) else { return "" }
        let count = Int(sqlite3_value_bytes(pointer))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    /// Whether a column of numbers may convert the text, that is, whether the text begins like a number.
    ///
    /// This looks at a copy, since SQLite converts a value to UTF-8 in its place, which not all texts in UTF-16
    /// survive.
    public var beginsLikeNumber: Bool {
        let copy = sqlite3_value_dup(pointer)
        defer { sqlite3_value_free(copy) }
        // Without memory for the copy, nothing is known.
        guard let copy, let text = sqlite3_value_text(copy) else { return true }
        let bytes = UnsafeBufferPointer(start: text, count: Int(sqlite3_value_bytes(copy)))
        let first = bytes.first { $0 != UInt8(ascii: " ") && !(9...13).contains($0) }
        return first.map { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || "+-.".utf8.contains($0) } ?? false
    }

    /// The value as an integer, converted as CAST does.
    public var int64: Int64 { sqlite3_value_int64(pointer) }

    /// The value as a double, converted as CAST does.
    public var double: Double { sqlite3_value_double(pointer) }

    /// A copy of the value.
    public var value: SQLiteValue {
        switch sqlite3_value_type(pointer) {
        case SQLITE_INTEGER: return .integer(sqlite3_value_int64(pointer))
        case SQLITE_FLOAT: return .real(sqlite3_value_double(pointer))
        case SQLITE_TEXT: return .text(text)
        case SQLITE_BLOB:
            let count = Int(sqlite3_value_bytes(pointer))
            guard let blob = sqlite3_value_blob(pointer) else { return .blob([]) }
            return .blob([UInt8](UnsafeRawBufferPointer(start: blob, count: count)))
        default: return .null
        }
    }
}

/// A list of values that SQLite owns, valid only during the call that received it.
public struct ValueReferences {
    let pointer: UnsafeMutablePointer<OpaquePointer?>?
    /// How many values there are.
    public let count: Int

    /// No values.
    public static var none: ValueReferences { ValueReferences(pointer: nil, count: 0) }

    /// The value at `index`, from 0.
    public subscript(index: Int) -> ValueReference {
        precondition(index >= 0 && index < count)
        return ValueReference(pointer.unsafelyUnwrapped[index].unsafelyUnwrapped)
    }
}
