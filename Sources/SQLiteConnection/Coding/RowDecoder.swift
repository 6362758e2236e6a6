/// Decodes one type after another from a row: its columns by name, or its first column as a single value.
final class RowDecoder: Decoder {
    let source: ColumnSource
    private let value: ColumnDecoder

    /// The container that was given last, and the type of its keys. One container serves all rows, and keeps the
    /// columns of the keys.
    private var container: AnyObject?
    private var containerKey: ObjectIdentifier?

    convenience init(_ statement: Statement) {
        let source = ColumnSource(statement)
        self.init(source: source, value: ColumnDecoder(source: source))
    }

    init(source: ColumnSource, value: ColumnDecoder) {
        self.source = source
        self.value = value
    }

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { source.userInfo }

    func decode<Wanted: Decodable>(_: Wanted.Type) throws -> Wanted {
        // An array's own decoding would ask for a list.
        if Wanted.self == [UInt8].self { return try value.decode(Wanted.self, column: 0) }
        do {
            return try Wanted(from: self)
        } catch let error as DecodingError {
            throw hidingValues(error, Wanted.self)
        } catch var error as SQLiteError where error.code == .range {
            error.message = "\(Wanted.self) cannot be read: \(error.message)"
            throw error
        }
    }

    /// The words of an error that the type itself has thrown may show values, so only the names in the error are kept.
    private func hidingValues(_ error: DecodingError, _ wanted: Any.Type) -> SQLiteError {
        let path =
            switch error {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
                context.codingPath
            case .keyNotFound(let key, let context): context.codingPath + [key]
            @unknown default: [any CodingKey]()
            }
        let name = path.isEmpty ? "the row" : "column " + path.map(\.stringValue).joined(separator: ".")
        return SQLiteError(code: .mismatch, message: "\(name) cannot be read as \(wanted)", sql: source.sql)
    }

    func container<Key: CodingKey>(keyedBy _: Key.Type) throws -> KeyedDecodingContainer<Key> {
        if let container, containerKey == ObjectIdentifier(Key.self) {
            return unsafeDowncast(container, to: ContainerBox<Key>.self).container
        }
        let made = KeyedDecodingContainer(RowContainer<Key>(source: source, value: value))
        container = ContainerBox(made)
        containerKey = ObjectIdentifier(Key.self)
        return made
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw source.unsupported("a row is decoded by the names of its columns, not as a list")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        value.column = 0
        return value
    }
}

private final class ContainerBox<Key: CodingKey> {
    let container: KeyedDecodingContainer<Key>
    init(_ container: KeyedDecodingContainer<Key>) { self.container = container }
}
