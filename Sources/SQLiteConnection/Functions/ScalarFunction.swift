internal import SQLiteC

/// What SQLite may assume of a function, and where it may be used.
public struct FunctionFlags: OptionSet, Sendable {
    /// SQLite's bits.
    public let rawValue: Int32
    /// Makes flags of SQLite's bits.
    public init(rawValue: Int32) { self.rawValue = rawValue }
    /// Equal arguments give equal results.
    public static let deterministic = FunctionFlags(rawValue: SQLITE_DETERMINISTIC)
    /// The function can be used in triggers and views even if the schema is not trusted (3.31).
    public static let innocuous = FunctionFlags(rawValue: 0x20_0000)
    /// The function cannot be used in triggers, views and the schema (3.30).
    public static let directOnly = FunctionFlags(rawValue: 0x8_0000)
}

private final class FunctionBox {
    let body: (ValueReferences, ResultContext) throws -> Void
    init(_ body: @escaping (ValueReferences, ResultContext) throws -> Void) { self.body = body }
}

extension Connection {
    /// Defines a function for this connection, or replaces one.
    ///
    ///     try connection.createFunction("double", argumentCount: 1, flags: .deterministic) { arguments, result in
    ///         result.set(2 * arguments[0].int64)
    ///     }
    ///
    /// - Parameters:
    ///   - name: The name by which SQL calls the function.
    ///   - argumentCount: How many arguments the function takes; -1 for any number.
    ///   - flags: What SQLite may assume of the function.
    ///   - body: Sets the result, which is NULL by default. An error that it throws fails the statement.
    public func createFunction(
        _ name: String,
        argumentCount: Int,
        flags: FunctionFlags = [],
        _ body: @escaping (ValueReferences, ResultContext) throws -> Void
    ) throws(SQLiteError) {
        try checkOpen()
        let code = sqlite3_create_function_v2(
            db,
            name,
            Int32(clamping: argumentCount),
            SQLITE_UTF8 | flags.rawValue,
            Unmanaged.passRetained(FunctionBox(body)).toOpaque(),
            { context, count, values in
                guard let context, let data = sqlite3_user_data(context) else { return }
                Unmanaged<FunctionBox>.fromOpaque(data)._withUnsafeGuaranteedRef { box in
                    do {
                        try box.body(
                            ValueReferences(pointer: values, count: Int(count)),
                            ResultContext(pointer: context)
                        )
                    } catch {
                        ResultContext(pointer: context).set(any: error)
                    }
                }
            },
            nil,
            nil,
            { data in
                if let data { Unmanaged<FunctionBox>.fromOpaque(data).release() }
            }
        )
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }
}
