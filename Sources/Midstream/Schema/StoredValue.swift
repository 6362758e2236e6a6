internal import SQLiteConnection

/// SQL functions that return a value as it would be once a column has stored it. There is one for each affinity.
///
/// Source: <https://www.sqlite.org/datatype3.html#type_affinity>.
enum StoredValue {
    /// A call that converts a value by an affinity; the value itself if there is no affinity.
    static func call(_ sql: String, _ affinity: Affinity?) -> String {
        affinity.map { "\(name($0))(\(sql))" } ?? sql
    }

    private static func name(_ affinity: Affinity) -> String {
        switch affinity {
        // This converts nothing, but removes the affinity and the collation of the source's column from the value.
        case .blob: "midstream_stored_blob"
        case .text: "midstream_stored_text"
        case .integer, .numeric: "midstream_stored_numeric"
        case .real: "midstream_stored_real"
        }
    }

    static func define(on connection: Connection) throws(SQLiteError) {
        func define(
            _ affinity: Affinity,
            _ body: @escaping (ValueReference, ResultContext) -> Void
        ) throws(SQLiteError) {
            let flags: FunctionFlags = [.deterministic, .innocuous]
            try connection.createFunction(name(affinity), argumentCount: 1, flags: flags) { body($0[0], $1) }
        }
        try define(.blob) { value, result in result.set(stored: value) }
        try define(.text) { value, result in
            switch value.storageClass {
            case .integer, .real: result.set(.text(value.text))
            default: result.set(stored: value)
            }
        }
        try define(.numeric) { value, result in
            switch value.numericStorageClass {
            case .integer: result.set(value.int64)
            case .real:
                let double = value.double
                // As in SQLite, the ends of the range are excluded.
                if let integer = Int64(exactly: double), integer != .min, integer != .max {
                    result.set(integer)
                } else {
                    result.set(.real(double))
                }
            default: result.set(stored: value)
            }
        }
        try define(.real) { value, result in
            switch value.numericStorageClass {
            // The file stores whole numbers as integers, which have no -0.0.
            case .integer, .real: result.set(.real(value.double == 0 ? 0 : value.double))
            default: result.set(stored: value)
            }
        }
    }

    static let names = [Affinity.blob, .text, .numeric, .real].map(name)
}
