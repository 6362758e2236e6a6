internal import SQLiteC

/// Decodes one type after another from a row: its columns by name, or the first as a single value.
final class RowDecoder: Decoder {
    /// A key that was asked for, and its column; -1 when there is none.
    private struct Step {
        let key: String
        let column: Int32
    }

    let source: ColumnSource
    private let value: ColumnDecoder
    var userInfo: [CodingUserInfoKey: Any] = [:]

    /// The keys in the order in which a row asked for them. The next row mostly asks alike, and then a comparison of
    /// two constant strings takes the place of a search.
    private var steps: ContiguousArray<Step> = []
    /// How many keys the row has asked for.
    var position = 0

    /// The container that was given last, and the type of its keys: one for all rows. It holds the decoder, and
    /// ``forgetContainer()`` ends the cycle.
    private var container: AnyObject?
    private var containerKey: ObjectIdentifier?

    init(_ statement: Statement) {
        source = ColumnSource(statement)
        value = ColumnDecoder(source: source)
    }

    func forgetContainer() {
        container = nil
    }

    var codingPath: [any CodingKey] { [] }

    func decode<Wanted: Decodable>(_: Wanted.Type) throws -> Wanted {
        // A column that reads itself would not ask for a container.
        if Wanted.self == [UInt8].self { return try decode(Wanted.self, column: 0) }
        do {
            return try Wanted(from: self)
        } catch let error as DecodingError {
            throw hidingValues(error, Wanted.self)
        }
    }

    /// The column of a key; -1 when there is none.
    @inline(__always)
    func column(of key: some CodingKey) -> Int32 {
        let name = key.stringValue
        let position = position
        self.position = position + 1
        if position < steps.count {
            let step = steps[position]
            if step.key == name { return step.column }
        }
        return findColumn(of: name, at: position)
    }

    @inline(never)
    private func findColumn(of name: String, at position: Int) -> Int32 {
        let column = source.names.index(of: name).map { Int32($0) } ?? -1
        let step = Step(key: name, column: column)
        if position < steps.count {
            steps[position] = step
        } else if steps.count < 4_096 {
            steps.append(step)
        }
        return column
    }

    @inline(__always)
    func requiredColumn(of key: some CodingKey) throws -> Int32 {
        let column = column(of: key)
        if column < 0 { throw source.missing(key.stringValue) }
        return column
    }

    /// Decodes any type from one column.
    @inline(__always)
    func decode<Wanted: Decodable>(_: Wanted.Type, column: Int32) throws -> Wanted {
        if Wanted.self == [UInt8].self { return unsafeBitCast(try source.bytes(column), to: Wanted.self) }
        return try decodeNested(Wanted.self, column: column)
    }

    private func decodeNested<Wanted: Decodable>(_: Wanted.Type, column: Int32) throws -> Wanted {
        value.column = column
        value.userInfo = userInfo
        do {
            return try Wanted(from: value)
        } catch is DecodingError {
            // Its words may show the value.
            throw source.mismatch(column, Wanted.self)
        }
    }

    /// The words of an error that the type itself raised may show values: only the names in it are kept.
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
        let made = KeyedDecodingContainer(RowContainer<Key>(decoder: self))
        container = ContainerBox(made)
        containerKey = ObjectIdentifier(Key.self)
        return made
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw source.unsupported("a row is decoded by the names of its columns, not as a list")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        value.column = 0
        value.userInfo = userInfo
        return value
    }
}

private final class ContainerBox<Key: CodingKey> {
    let container: KeyedDecodingContainer<Key>
    init(_ container: KeyedDecodingContainer<Key>) { self.container = container }
}
