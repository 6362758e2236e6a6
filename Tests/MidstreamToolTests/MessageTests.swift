import Midstream
import Testing

@testable import MidstreamTool

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What `Docs/Errors.md` and the command say of errors.
@Suite struct MessageTests {
    private static let root = "\(#filePath)".split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 }

    private static func text(_ path: String) throws -> String {
        guard let file = SystemCalls.openForReading("\(root)/\(path)") else {
            throw CommandFailure("cannot read \(path)")
        }
        defer { close(file) }
        var bytes: [UInt8] = []
        while let piece = SystemCalls.read(file), !piece.isEmpty { bytes += piece }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The rows of the table below a heading, by their cells.
    private static func table(_ heading: String) throws -> [[String]] {
        let lines = try text("Docs/Errors.md").split(separator: "\n", omittingEmptySubsequences: false)
        return lines.drop { $0 != "## \(heading)" }.dropFirst().prefix { !$0.hasPrefix("## ") }
            .filter { $0.hasPrefix("| ") }.dropFirst()
            .map {
                $0.split(separator: "|").map {
                    $0.trimmingPrefix(" ").reversed().drop { $0 == " " }.reversed().map(String.init).joined()
                }
            }
    }

    @Test func eachCodeHasARowWithCausesAndRemedies() throws {
        let rows = try Self.table("Codes of MigrationError")
        #expect(rows.map { $0[0] } == MigrationError.Code.allCases.map { "`\($0.rawValue)`" })
        for row in rows { #expect(row.count == 3 && row.allSatisfy { !$0.isEmpty }, "\(row)") }
    }

    @Test func eachExitCodeHasARow() throws {
        let codes = [ExitCode.success, .failure, .usage, .signal(SIGINT), .signal(SIGPIPE)]
        #expect(try Self.table("Exit codes of the command").map { $0[0] } == codes.map { "\($0.status)" })
    }

    @Test func statusTellsWhyATableIsStopped() throws {
        let folder = TestFolder()
        let old = try folder.database(
            "old.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1, 1), (2, 2)"
        )
        let new = try folder.database("new.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, n CHECK (n <> 2))")
        let move = try BuiltTool.run("migrate", new, "--source", old, "--table", "t")
        #expect(move.status == 1 && move.error.contains("refuses the row with rowid 2"), "\(move.error)")
        let text = try BuiltTool.run("status", new).output
        #expect(
            text.contains("\n    stopped: target table t refuses the row with rowid 2 of source table t"),
            "\(text)"
        )
        let json = try BuiltTool.run("status", new, "--json").output
        #expect(json.contains("\"stop\":{\"code\":\"rowRefused\",\"message\":\"target table t refuses"), "\(json)")
        #expect(json.contains("\"row\":\"rowid 2\""), "\(json)")
    }

    @Test func anErrorOfASchemaHasFileLineAndColumn() throws {
        let folder = TestFolder()
        let target = try folder.database("a.db", "CREATE TABLE t(a)")
        let script = folder.file("new.sql")
        let file = try #require(fopen(script, "w"))
        fputs("CREATE TABLE t(a);\nSELECT 1;\n", file)
        fclose(file)
        let result = try BuiltTool.run("upgrade", target, "--schema", script)
        #expect(result.status == 1)
        #expect(result.error.hasPrefix("midstream: error: \(script):2:1: "), "\(result.error)")
    }

    /// Names of the API are of no use in a shell. Errors that no command can cause may have them.
    @Test func theCommandSaysNothingOfTheAPI() {
        for term in CommandWords.terms {
            #expect(CommandWords.message("say \(term.api) so").contains(term.api) == false)
        }
        // A table may have any name.
        let names = "table firesTriggers has no column unmatchedColumns, and waivedForeignKeys has none"
        #expect(CommandWords.message(names) == names)
        let api =
            "the rows cannot be read: say by TableMigration.columns what its columns are made of, or set firesTriggers = false"
        #expect(
            CommandWords.message(api)
                == "the rows cannot be read: say by --map what its columns are made of, or give --no-fire-triggers"
        )
    }

    /// Texts that only calls of the API can cause.
    private static let notOfTheCommand = [
        "MigrationOverlay.", "closure of refusedRows = .ask", "have DatabaseConfiguration.sourcePath give",
        "say .sameDatabase", "SchemaUpgrades.onNewerSchema", "CaseIterable",
        "refusedRows = .ask is not available", "makeStep has not been set",
    ]

    @Test func eachTermOfTheAPIInAMessageHasAWordOfTheCommand() throws {
        let files = Self.files("Sources/Midstream") + Self.files("Sources/SQLiteConnection")
        #expect(files.count > 100)
        var found = 0
        for file in files {
            for literal in Literals.all(in: try Self.text(file)) where literal.contains(" ") {
                if Self.notOfTheCommand.contains(where: literal.contains) { continue }
                let isOfAPI = literal.contains(Self.name)
                if isOfAPI { found += 1 }
                let words = CommandWords.message(literal)
                #expect(!words.contains(Self.name), "\(file): \(words)")
            }
        }
        #expect(found > 20)
    }

    /// A name as Swift writes it, or a value of an enumeration.
    private static var name: Regex<Substring> { #/\b[a-z]+[A-Z][A-Za-z]+\b|\b[A-Z][a-z]+[A-Z][A-Za-z]+\b| \.[a-z]+/# }

    private static func files(_ folder: String) -> [String] {
        guard let entries = opendir("\(root)/\(folder)") else { return [] }
        defer { closedir(entries) }
        var files: [String] = []
        while let entry = readdir(entries) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasPrefix(".") { continue }
            files += name.hasSuffix(".swift") ? ["\(folder)/\(name)"] : Self.files("\(folder)/\(name)")
        }
        return files
    }
}

/// The string literals of Swift's source, with `…` in place of interpolations. Strings that `+` puts together count as
/// one.
private struct Literals {
    private var rest: Substring
    private var found: [String] = []

    static func all(in source: String) -> [String] {
        var literals = Literals(rest: source[...])
        literals.readCode(isFilledIn: false)
        return literals.found
    }

    private init(rest: Substring) { self.rest = rest }

    private mutating func skip(past end: String) {
        while !rest.isEmpty, !rest.hasPrefix(end) { rest.removeFirst() }
        rest = rest.dropFirst(end.count)
    }

    /// Reads to the end, or to the parenthesis that ends an interpolation.
    private mutating func readCode(isFilledIn: Bool) {
        var depth = 0
        while let first = rest.first {
            if rest.hasPrefix("//") {
                skip(past: "\n")
            } else if rest.hasPrefix("\"\"\"") {
                rest = rest.dropFirst(3)
                skip(past: "\"\"\"")
            } else if rest.hasPrefix("#/") {
                skip(past: "/#")
            } else if first == "\"" {
                found.append(readLiteral())
            } else {
                rest.removeFirst()
                if first == "(" { depth += 1 }
                if first == ")" { depth -= 1 }
                if isFilledIn, depth < 0 { return }
            }
        }
    }

    private mutating func readLiteral() -> String {
        rest.removeFirst()
        var text = ""
        while let first = rest.first, first != "\"" {
            rest.removeFirst()
            if first != "\\" {
                text.append(first)
            } else if rest.removeFirst() == "(" {
                readCode(isFilledIn: true)
                text += "…"
            }
        }
        rest = rest.dropFirst()
        guard let next = rest.prefixMatch(of: #/\s*\+\s*(?=")/#) else { return text }
        rest = rest[next.range.upperBound...]
        return text + readLiteral()
    }
}
