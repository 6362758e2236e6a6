import Foundation
import GRDB

import struct SQLiteConnection.Arguments
import struct SQLiteConnection.SQLiteError
import enum SQLiteConnection.SQLiteValue

extension Arguments {
    init(_ values: [(any DatabaseValueConvertible)?]) {
        self.init(values: values.map { SQLiteValue($0?.databaseValue ?? .null) })
    }
}

extension SQLiteValue {
    init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let integer): self = .integer(integer)
        case .double(let double): self = .real(double)
        case .string(let text): self = .text(text)
        case .blob(let data): self = .blob(Array(data))
        }
    }

    var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let integer): integer.databaseValue
        case .real(let double): double.databaseValue
        case .text(let text): text.databaseValue
        case .blob(let bytes): Data(bytes).databaseValue
        }
    }
}

extension DatabaseError {
    /// The same error as GRDB reports it.
    init(_ error: SQLiteError, sql: String) {
        self.init(resultCode: ResultCode(rawValue: error.code.rawValue), message: error.message, sql: sql)
    }
}

/// A name as SQL writes it.
func quoted(_ name: String) -> String {
    "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
}
