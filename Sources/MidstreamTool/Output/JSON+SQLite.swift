internal import Midstream
internal import SQLiteConnection

extension JSON {
    /// A value of SQLite. A blob becomes `{"blob":"hex"}`.
    init(_ value: SQLiteValue) {
        switch value {
        case .null: self = .null
        case .integer(let integer): self.init(integer)
        case .real(let real): self.init(real)
        case .text(let text): self.init(text)
        case .blob(let bytes): self.init(object: ["blob": JSON(Hex.text(bytes))])
        }
    }

    /// An error, with the codes of SQLite.
    init(error: any Error) {
        let code: ResultCode
        var kind: String?
        switch error {
        case let error as SQLiteError: code = error.code
        case let error as MigrationError:
            code = error.cause?.code ?? .error
            kind = error.code.rawValue
        default: code = .error
        }
        var members = [
            ("code", JSON(Int64(code.primary.rawValue))),
            ("extendedCode", JSON(Int64(code.rawValue))),
            ("message", JSON(message(of: error))),
        ]
        if let kind { members.append(("kind", JSON(kind))) }
        self.init(members: members)
    }
}
