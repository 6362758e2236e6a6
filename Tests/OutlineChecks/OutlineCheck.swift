internal import SQLText

/// What must be true of the outlines of any text at all, be it SQL or not.
///
/// The tests and the fuzzer of the package `Fuzzing` both ask it. It takes time linear in the text, but for names that
/// many common tables might hide.
public final class OutlineCheck {
    /// What is not as it must be.
    private var problems: [String] = []

    private let text: String
    private let bytes: [UInt8]
    /// Whether a token that is neither space nor comment starts or ends at each offset.
    private var starts: [Bool]
    private var ends: [Bool]

    /// Looks at everything that the outlines of a text say.
    public static func problems(in text: String) -> [String] {
        let check = OutlineCheck(text)
        check.checkTokens()
        check.checkStatements()
        return check.problems
    }

    private init(_ text: String) {
        self.text = text
        bytes = Array(text.utf8)
        starts = [Bool](repeating: false, count: bytes.count + 1)
        ends = starts
    }

    func expect(_ isTrue: Bool, _ problem: @autoclosure () -> String) {
        if !isTrue { problems.append(problem()) }
    }

    private func isBoundary(_ offset: Int) -> Bool {
        offset == bytes.count || offset >= 0 && offset < bytes.count && bytes[offset] & 0xC0 != 0x80
    }

    private static func same(_ a: String, _ b: String) -> Bool {
        // Swift's == takes other bytes for the same where they mean the same letters.
        a.utf8.elementsEqual(b.utf8)
    }

    // MARK: Tokens and statements

    private func checkTokens() {
        var end = 0
        for token in SQLTokenizer(text) {
            expect(token.range.lowerBound == end && !token.range.isEmpty, "token \(token) does not follow \(end)")
            expect(isBoundary(token.range.upperBound), "token \(token) splits a character")
            end = token.range.upperBound
            guard !token.isTrivia, end <= bytes.count else { continue }
            starts[token.range.lowerBound] = true
            ends[end] = true
        }
        expect(end == bytes.count, "the tokens end at \(end) of \(bytes.count)")
    }

    private func checkStatements() {
        let script = SQLScript(text)
        expect(script.utf8Count == bytes.count, "the length is \(script.utf8Count), not \(bytes.count)")
        var start = 0
        for outline in script {
            let isForward = outline.endOffset > start && outline.endOffset <= bytes.count
            expect(isForward, "the statement at \(start) ends at \(outline.endOffset)")
            guard isForward else { return }
            let whole = outline.range
            expect(
                start <= whole.lowerBound && whole.upperBound <= outline.endOffset,
                "\(whole) is not in \(start)..<\(outline.endOffset)"
            )
            check(outline)
            checkEdits(outline)
            checkSame(script.outline(at: start), outline, shiftedBy: 0, "from its offset")
            // What is kept under the text of one statement is outlined anew, without what stood around it.
            let piece = script.text(start..<outline.endOffset)
            expect(piece.utf8.elementsEqual(bytes[start..<outline.endOffset]), "the text of a piece differs")
            checkSame(SQLScript(piece).outline(), outline, shiftedBy: start, "alone")
            start = outline.endOffset
        }
        expect(start == bytes.count || bytes[start] == 0, "the statements end at \(start) of \(bytes.count)")
    }

    private func checkSame(
        _ other: StatementOutline,
        _ outline: StatementOutline,
        shiftedBy offset: Int,
        _ how: String
    ) {
        let isSame =
            other.kind == outline.kind && other.explained == outline.explained
            && other.isComplete == outline.isComplete
            && other.range.lowerBound + offset == outline.range.lowerBound
            && other.range.upperBound + offset == outline.range.upperBound
            && other.endOffset + offset == outline.endOffset
            && other.target?.name == outline.target?.name && other.scopes.count == outline.scopes.count
            && other.tableReferences.map(\.name.name) == outline.tableReferences.map(\.name.name)
            && other.parameters.map(\.index) == outline.parameters.map(\.index)
            && other.functionCalls.map(\.name) == outline.functionCalls.map(\.name)
        expect(isSame, "the statement at \(outline.range) has another outline \(how)")
    }

    // MARK: Parts

    private func check(_ outline: StatementOutline) {
        expect(!outline.isComplete || outline.kind != .other, "a complete statement of no kind")
        expect(
            (outline.kind == .explain) == (outline.explained != nil),
            "\(outline.kind) of \(outline.explained as Any)"
        )
        expect((outline.kind == .empty) == outline.range.isEmpty, "\(outline.kind) has \(outline.range)")
        for (what, range) in outline.parts { expect(isPart(range, of: outline), "\(what): \(range)") }
        checkClauses(outline)
        checkNames(outline)
        for (index, scope) in outline.scopes.enumerated() {
            expect((scope.parent == nil) == (index == 0), "scope \(index) is in \(scope.parent as Any)")
            expect(scope.parent.map { $0 < index } ?? true, "scope \(index) is around its parent")
        }
        let scopes = outline.tableReferences.map(\.scope) + outline.qualifiedReferences.map(\.scope)
        for scope in scopes + outline.functionCalls.map(\.scope) {
            expect(outline.scopes.indices.contains(scope), "there is no scope \(scope)")
        }
        let indices = outline.parameters.map(\.index)
        expect(indices.allSatisfy { $0 > 0 && $0 <= Int(Int32.max) }, "parameters \(indices)")
    }

    /// Whether a range is in the statement, and from the start of a token to the end of one.
    private func isPart(_ range: Range<Int>, of outline: StatementOutline) -> Bool {
        outline.range.lowerBound <= range.lowerBound && range.upperBound <= outline.range.upperBound
            && !range.isEmpty && starts[range.lowerBound] && ends[range.upperBound]
    }

    private func checkClauses(_ outline: StatementOutline) {
        let clauses = outline.clauses
        let all = [clauses.set, clauses.from, clauses.where, clauses.returning, clauses.orderBy, clauses.limit]
        var end = outline.range.lowerBound
        for clause in all.compactMap({ $0 }) {
            expect(clause.range.lowerBound >= end, "the clause at \(clause.range) begins before \(end)")
            expect(
                clause.range.lowerBound < clause.body.lowerBound && clause.range.upperBound == clause.body.upperBound,
                "the clause at \(clause.range) has the body \(clause.body)"
            )
            end = clause.range.upperBound
        }
        for assignment in outline.assignments {
            expect(assignment.columnsRange.upperBound < assignment.value.lowerBound, "SET \(assignment)")
            expect(!assignment.columns.isEmpty, "SET without columns")
        }
    }

    private func checkNames(_ outline: StatementOutline) {
        func isName(_ name: String, _ range: Range<Int>) -> Bool {
            Self.same(SQLIdentifier.unquoted(outline.text(range)), name)
        }
        for name in outline.tableReferences.map(\.name) + [outline.target, outline.onTable].compactMap({ $0 }) {
            expect(isName(name.name, name.nameRange), "\(name)")
            expect((name.schema == nil) == (name.schemaRange == nil), "\(name)")
            if let schema = name.schema, let range = name.schemaRange { expect(isName(schema, range), "\(name)") }
        }
        // What names no table that moves is never looked at again.
        for name in outline.tableReferences.prefix(12).map(\.name.name) {
            expect(outline.mentions(SQLNameSet([name])), "does not mention \(name)")
            expect(SQLScript(text).mentionsAny([SQLIdentifier.lowercased(name)]), "the text does not mention \(name)")
        }
        for reference in outline.tableReferences.prefix(50) { _ = outline.isHiddenByCommonTable(reference) }
        for column in outline.qualifiedReferences {
            expect(isName(column.schema, column.schemaRange), "\(column)")
            expect(isName(column.table, column.tableRange), "\(column)")
        }
        _ = outline.allCommonTables
        _ = outline.tablesNamedWithoutSchema
        _ = outline.hasMinimum
        _ = outline.repeatsName(in: outline.whereClause ?? outline.range)
    }

    // MARK: Edits

    private func checkEdits(_ outline: StatementOutline) {
        let untouched = outline.text(outline.range)
        let names = outline.tableReferences.map(\.name)
        let columns = outline.qualifiedReferences.map { $0.schemaRange.lowerBound..<$0.columnRange.upperBound }
        var identity = SQLEdits()
        expect(extract(identity, outline).map { Self.same($0, untouched) } ?? false, "no edits change the statement")
        for range in names.map(\.range) + columns + outline.parameters.map(\.range) {
            identity.replace(range, with: outline.text(range))
        }
        expect(extract(identity, outline).map { Self.same($0, untouched) } ?? false, "parts do not make up the whole")
        guard outline.isComplete else { return }
        // As Midstream redirects: words without quotes, whatever stands before them.
        var edits = SQLEdits()
        for name in names {
            if let schema = name.schemaRange {
                edits.replace(schema, withWord: "elsewhere", of: outline)
            } else {
                edits.insertWord("elsewhere.", at: name.nameRange.lowerBound, of: outline)
            }
        }
        for column in outline.qualifiedReferences {
            edits.replace(column.schemaRange, withWord: "elsewhere", of: outline)
        }
        for parameter in outline.parameters {
            let end = parameter.range.upperBound
            let isBeforeDigit = end < bytes.count && (0x30..<0x3A).contains(bytes[end])
            edits.replace(parameter.range, with: "?\(parameter.index)" + (isBeforeDigit ? " " : ""))
        }
        guard let edited = extract(edits, outline) else {
            return problems.append("the names cannot be edited")
        }
        let again = SQLScript(edited).outline()
        expect(
            again.isComplete && again.kind == outline.kind && again.endOffset == edited.utf8.count
                && again.range == 0..<edited.utf8.count,
            "edited it is another statement: \(edited)"
        )
        expect(
            again.tableReferences.map(\.name.name) == names.map(\.name)
                && again.tableReferences.map(\.alias) == outline.tableReferences.map(\.alias)
                && again.tableReferences.allSatisfy { $0.name.schema == "elsewhere" },
            "edited it has other tables: \(edited)"
        )
        expect(
            again.parameters.map(\.index) == outline.parameters.map(\.index),
            "edited it counts otherwise: \(edited)"
        )
    }

    private func extract(_ edits: SQLEdits, _ outline: StatementOutline) -> String? {
        guard let whole = try? edits.apply(to: text), let part = try? edits.extract(outline.range, from: text),
            whole.utf8.count >= part.utf8.count
        else { return nil }
        return part
    }
}
