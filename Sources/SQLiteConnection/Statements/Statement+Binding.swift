internal import SQLText
internal import SQLiteC

/// SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
private let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

extension Statement {
    /// The largest number of a parameter. With `?5` alone it is 5.
    public var parameterCount: Int { Int(sqlite3_bind_parameter_count(handle)) }

    /// The parameter's name with its prefix (`:id`, `?7`), or `nil` for a plain `?`.
    public func parameterName(at index: Int) -> String? {
        sqlite3_bind_parameter_name(handle, Int32(clamping: index)).map { String(cString: $0) }
    }

    /// The index of the parameter with that name. The name may be given with or without its prefix.
    public func parameterIndex(of name: String) -> Int? {
        let exact = sqlite3_bind_parameter_index(handle, name)
        if exact > 0 { return Int(exact) }
        for prefix in [":", "@", "$"] {
            let index = sqlite3_bind_parameter_index(handle, prefix + name)
            if index > 0 { return Int(index) }
        }
        return nil
    }

    /// Binds a value to the parameter at `index`, from 1.
    ///
    /// This overload is disfavoured so that a literal is bound as its plain type, not by way of `SQLiteValue`.
    @_disfavoredOverload
    public func bind(_ value: SQLiteValue, at index: Int) throws(SQLiteError) {
        switch value {
        case .null: try check(sqlite3_bind_null(handle, Int32(clamping: index)), index)
        case .integer(let integer): try bind(integer, at: index)
        case .real(let double): try check(sqlite3_bind_double(handle, Int32(clamping: index), double), index)
        case .text(let text): try bind(text, at: index)
        case .blob(let bytes): try bind(bytes, at: index)
        }
    }

    /// Binds an integer to the parameter at `index`, from 1.
    public func bind(_ integer: Int64, at index: Int) throws(SQLiteError) {
        try check(sqlite3_bind_int64(handle, Int32(clamping: index), integer), index)
    }

    /// Binds text to the parameter at `index`, from 1.
    public func bind(_ text: String, at index: Int) throws(SQLiteError) {
        var text = text
        let code = text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                // SQLite binds NULL for a null pointer, which an empty buffer may have.
                guard let start = characters.baseAddress else {
                    return sqlite3_bind_text(handle, Int32(clamping: index), "", 0, transient)
                }
                return sqlite3_bind_text64(
                    handle,
                    Int32(clamping: index),
                    start,
                    UInt64(characters.count),
                    transient,
                    UInt8(SQLITE_UTF8)
                )
            }
        }
        try check(code, index)
    }

    /// Binds bytes to the parameter at `index`, from 1.
    public func bind(_ bytes: [UInt8], at index: Int) throws(SQLiteError) {
        let code = bytes.withUnsafeBytes { buffer in
            guard let start = buffer.baseAddress, !buffer.isEmpty else {
                return sqlite3_bind_zeroblob(handle, Int32(clamping: index), 0)
            }
            return sqlite3_bind_blob64(
                handle,
                Int32(clamping: index),
                start,
                UInt64(buffer.count),
                transient
            )
        }
        try check(code, index)
    }

    /// Binds a value that SQLite owns to the parameter at `index`, from 1. SQLite copies it.
    public func bind(_ value: ValueReference, at index: Int) throws(SQLiteError) {
        if sqlite3_value_type(value.pointer) == SQLITE_TEXT, textEncoding != .utf8 {
            return try bindUTF16(of: value, at: index)
        }
        try check(sqlite3_bind_value(handle, Int32(clamping: index), value.pointer), index)
    }

    /// Binds a text of a database that has UTF-16. SQLite removes a byte order mark from the text that is bound, even
    /// if the text itself begins with that character. So the text gets a mark that may be removed.
    private func bindUTF16(of value: ValueReference, at index: Int) throws(SQLiteError) {
        // The text is taken in the byte order that the value has. The value then stays as it is, and SQLite goes on
        // with it.
        let isBigEndian = textEncoding == .utf16BigEndian
        // The count comes before the text, since older versions of SQLite count in the machine's byte order.
        let count = Int(sqlite3_value_bytes16(value.pointer))
        let text = isBigEndian ? sqlite3_value_text16be(value.pointer) : sqlite3_value_text16le(value.pointer)
        let bytes = UnsafeRawBufferPointer(start: text, count: count)
        let mark: [UInt8] = isBigEndian ? [0xfe, 0xff] : [0xff, 0xfe]
        guard bytes.starts(with: mark) || bytes.starts(with: mark.reversed()) else {
            return try check(sqlite3_bind_value(handle, Int32(clamping: index), value.pointer), index)
        }
        try bindText(mark + bytes, isBigEndian ? SQLITE_UTF16BE : SQLITE_UTF16LE, at: index)
    }

    /// Binds a column of another statement's current row to the parameter at `index`, from 1. SQLite copies it.
    public func bind(column: Int, of other: Statement, at index: Int) throws(SQLiteError) {
        let source = Int32(clamping: column)
        if sqlite3_column_type(other.handle, source) == SQLITE_TEXT, other.textEncoding != .utf8 {
            let marked = other.withUTF16(at: column) { text in
                text.first == 0xfeff || text.first == 0xfffe ? Self.marked(text) : nil
            }
            if let marked { return try bindText(marked, SQLITE_UTF16BE, at: index) }
        }
        try check(sqlite3_bind_value(handle, Int32(clamping: index), sqlite3_column_value(other.handle, source)), index)
    }

    /// The bytes of a text, after a mark of their byte order.
    private static func marked(_ text: some Sequence<UInt16>) -> [UInt8] {
        [0xfe, 0xff] + text.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
    }

    /// Binds a value to the parameter at `index`, from 1.
    package func bind(_ value: ExactValue, at index: Int) throws(SQLiteError) {
        guard case .text(let bytes) = value, !bytes.isEmpty else { return try bind(value.value, at: index) }
        // When SQLite makes UTF-16 from UTF-8, it loses U+FFFE, U+FFFF and surrogates, which the text may have.
        if textEncoding != .utf8, !bytes.allSatisfy({ $0 < 0x80 }) {
            return try bindText(Self.marked(WTF8.decode(bytes)), SQLITE_UTF16BE, at: index)
        }
        try bindText(bytes, SQLITE_UTF8, at: index)
    }

    /// - Parameter bytes: The text, with a mark of its byte order before it if it has one. They are not empty.
    private func bindText(_ bytes: [UInt8], _ encoding: Int32, at index: Int) throws(SQLiteError) {
        let code = bytes.withUnsafeBytes { buffer in
            sqlite3_bind_text64(
                handle,
                Int32(clamping: index),
                buffer.baseAddress?.assumingMemoryBound(to: CChar.self),
                UInt64(buffer.count),
                transient,
                UInt8(encoding)
            )
        }
        try check(code, index)
    }

    /// Binds all `arguments`, and nothing else: earlier values are gone.
    ///
    ///     try statement.bind([1, nil])        // NULL for the second
    ///
    /// A parameter that occurs several times in the text has one value. A number that the text leaves out, such as `?2`
    /// in `VALUES (?1, ?3)`, needs no value. In a list of values by position, that number still has its place, as in
    /// SQLite.
    ///
    /// - Throws: ``SQLiteError`` with ``ResultCode/range``: if a parameter has no value, which the error names; if
    ///   there are more values than parameters; or if a name is given that the statement does not have.
    public func bind(_ arguments: Arguments) throws(SQLiteError) {
        clearBindings()
        let count = parameterCount
        guard arguments.positional.count <= count else {
            throw SQLiteError.tooManyValues(arguments, parameterCount: count, sql: sql)
        }
        for (offset, value) in arguments.positional.enumerated() {
            try bind(value, at: offset + 1)
        }
        for (name, value) in arguments.named {
            guard let index = parameterIndex(of: name) else { throw SQLiteError.noParameter(named: name, sql: sql) }
            try bind(value, at: index)
        }
        try checkBound()
    }

    /// Removes the values of all parameters. Each parameter needs a new value before the next run.
    public func clearBindings() {
        sqlite3_clear_bindings(handle)
        forgetBindings()
    }

    /// Makes each parameter need a new value before the next run.
    func forgetBindings() { unbound = needed }

    /// - Throws: ``SQLiteError`` if a parameter has no value.
    func checkBound() throws(SQLiteError) {
        if !unbound.isEmpty { try checkUsedAreBound() }
    }

    /// Checks once more whether parameters have no value, now by the text, which may leave numbers out.
    private func checkUsedAreBound() throws(SQLiteError) {
        let outline = SQLScript(sql).first { $0.kind != .empty }
        // EXPLAIN does not run the statement that it explains.
        let used = outline.map { $0.kind == .explain ? [] : Set($0.parameters.map(\.index)) } ?? []
        needed.formIntersection(used)
        unbound.formIntersection(used)
        let missing = unbound.numbers
        if missing.isEmpty { return }
        throw SQLiteError.noValues(for: missing.map { parameterName(at: $0) ?? "?\($0)" }, sql: sql)
    }

    private func check(_ code: Int32, _ index: Int) throws(SQLiteError) {
        if code != SQLITE_OK { throw SQLiteError(lastOf: db, fallback: code, sql: sql) }
        unbound.remove(index)
    }
}

extension SQLiteError {
    /// The error about parameters that are given no value.
    ///
    /// - Parameter parameters: The parameters as they are written; a plain `?` as `?2`.
    package static func noValues(for parameters: [String], sql: String) -> SQLiteError {
        let most = 10
        let names = parameters.prefix(most).joined(separator: ", ") + (parameters.count > most ? ", …" : "")
        return SQLiteError(
            code: .range,
            message: parameters.count == 1
                ? "no value is given for parameter \(names); for NULL, give nil"
                : "no values are given for parameters \(names); for NULL, give nil",
            sql: sql
        )
    }

    /// The error about values by position for which there are no parameters.
    package static func tooManyValues(_ arguments: Arguments, parameterCount: Int, sql: String) -> SQLiteError {
        SQLiteError(
            code: .range,
            message: "\(arguments.positional.count) values given for \(parameterCount) parameters",
            sql: sql
        )
    }

    /// The error about a parameter name that the statement does not have.
    package static func noParameter(named name: String, sql: String) -> SQLiteError {
        SQLiteError(code: .range, message: "no parameter is named \(name)", sql: sql)
    }
}
