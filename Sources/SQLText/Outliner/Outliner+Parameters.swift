extension Outliner {
    /// Numbers the parameters as SQLite does; see https://sqlite.org/lang_expr.html#varparam.
    func collectParameters() {
        var indices: [ArraySlice<UInt8>: Int] = [:]
        var largest = 0
        for token in tokens where token.kind == .variable {
            let text = bytes.storage[token.range]
            let index: Int
            if text.first != UInt8(ascii: "?") {
                index = indices[text] ?? largest + 1
                indices[text] = index
            } else if text.count == 1 {
                index = largest + 1
            } else if let number = Self.number(text.dropFirst()) {
                index = number
            } else {
                outline.isComplete = false
                continue
            }
            guard index <= Int(Int32.max) else {
                outline.isComplete = false
                continue
            }
            largest = max(largest, index)
            let name = text.count == 1 ? nil : String(decoding: text, as: UTF8.self)
            outline.parameters.append(Parameter(range: token.range, index: index, name: name))
        }
    }

    /// The number of a parameter, if SQLite can accept it: SQLite's limit cannot be set above 2^31 - 1.
    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var result = 0
        for digit in digits {
            result = result * 10 + Int(digit - UInt8(ascii: "0"))
            if result > Int(Int32.max) { return nil }
        }
        return result == 0 ? nil : result
    }
}
