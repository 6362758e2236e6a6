import SQLText

/// What an outline says, as lines that a test can compare.
extension StatementOutline {
    func text(_ range: Range<Int>?) -> String? {
        range.map { text($0) }
    }

    /// Each reference as `schema.name alias context@scope`.
    var referenceTexts: [String] {
        tableReferences.map { reference in
            var result = reference.name.schema.map { "\($0)." } ?? ""
            result += reference.name.name
            if let alias = reference.alias { result += " \(alias)" }
            if reference.context != .from { result += " \(reference.context)" }
            if reference.isTableFunction { result += " function" }
            if isHiddenByCommonTable(reference) { result += " hidden" }
            return result
        }
    }
}

func outline(_ text: String) -> StatementOutline {
    SQLScript(text).outline()
}
