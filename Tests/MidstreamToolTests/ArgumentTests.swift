import Midstream
import Testing

@testable import MidstreamTool

@Suite struct ArgumentTests {
    private let spec = MigrateCommand.spec

    private func parse(_ arguments: String...) throws -> ParsedArguments {
        try ParsedArguments(arguments, for: spec)
    }

    @Test func anOptionsValueFollowsItOrIsAttached() throws {
        let spaced = try parse("--source", "a.db", "b.db")
        let attached = try parse("b.db", "--source=a.db")
        #expect(spaced == attached)
        #expect(spaced.value("source") == "a.db")
    }

    @Test func theLastValueCountsAndARepeatableOptionKeepsAll() throws {
        let parsed = try parse("new.db", "--source", "a", "--table", "x", "--source", "b", "--table=y=z")
        #expect(parsed.value("source") == "b")
        #expect(parsed.all("table") == ["x", "y=z"])
    }

    @Test func aValueThatBeginsWithADashIsAttached() throws {
        #expect(try parse("new.db", "--where=-a > 1").value("where") == "-a > 1")
        #expect(throws: UsageError.self) { try parse("--where", "-a > 1") }
        #expect(throws: UsageError.self) { try parse("--where") }
    }

    @Test func twoDashesEndTheOptions() throws {
        let parsed = try ParsedArguments(["--json", "--", "--strange", "-"], for: SQLCommand.spec)
        #expect(parsed.positionals == ["--strange", "-"])
        #expect(parsed.has("json"))
    }

    @Test func helpNeedsNoOtherArguments() throws {
        #expect(try ParsedArguments(["-h"], for: StatusCommand.spec).has("help"))
        #expect(try ParsedArguments(["--help"], for: StatusCommand.spec).has("help"))
    }

    @Test func anErrorNamesTheOptionAndNoValue() {
        let cases: [([String], String)] = [
            (["--secret=1234"], "--secret"), (["--json=1234"], "--json"), (["-x1234"], "-x"),
            (["1234", "1234"], "1 argument"),
        ]
        for (arguments, name) in cases {
            do {
                _ = try ParsedArguments(arguments, for: spec)
                Issue.record("\(arguments) was accepted")
            } catch {
                #expect(error.message.contains(name))
                #expect(!error.message.contains("1234"))
                #expect(error.command == "migrate")
            }
        }
    }

    @Test func aMissingArgumentIsNamed() {
        #expect(throws: UsageError("missing argument <target>", command: "status")) {
            try ParsedArguments([], for: StatusCommand.spec)
        }
    }

    @Test func durationsHaveAUnit() {
        #expect(DurationText.parse("10ms") == .milliseconds(10))
        #expect(DurationText.parse("1.5s") == .milliseconds(1500))
        #expect(DurationText.parse("250us") == .microseconds(250))
        #expect(DurationText.parse("2min") == .seconds(120))
        for text in ["10", "ms", "-1ms", "0ms", "1h", "1e3ms", "nanms", "٣ms", "99999999s", ""] {
            #expect(DurationText.parse(text) == nil, "\(text)")
        }
    }

    @Test func aTableMayHaveAnotherNameInTheSource() {
        #expect(TableChoice("a") == TableChoice(target: "a", source: "a"))
        #expect(TableChoice("a=b=c") == TableChoice(target: "a", source: "b=c"))
        #expect(TableChoice("\"a=\"\"b\"") == TableChoice(target: "a=\"b", source: "a=\"b"))
        #expect(TableChoice("\"a=b\"=\"c\"") == TableChoice(target: "a=b", source: "c"))
        #expect(TableChoice("\"a\"b=c") == TableChoice(target: "\"a\"b", source: "c"))
        for text in ["", "=", "a=", "=b", "\"\"=b"] { #expect(TableChoice(text) == nil, "\(text)") }
    }

    @Test func whatMovesNeedsASource() {
        for arguments in [["--table", "t"], ["--all-tables"], ["--where", "1"], ["--keep-source"]] {
            #expect(throws: UsageError.self, "\(arguments)") {
                try MigrateCommand(ParsedArguments(["t"] + arguments, for: spec))
            }
        }
    }

    @Test func allTablesAndSomeOfThemExcludeEachOther() {
        let arguments = ["new.db", "--source=old.db", "--all-tables", "--table=t"]
        #expect(throws: UsageError.self) { try MigrateCommand(ParsedArguments(arguments, for: spec)) }
        #expect(throws: UsageError.self) { try SQLCommand(ParsedArguments(arguments, for: SQLCommand.spec)) }
    }

    @Test func paceAndBudgetAreChecked() throws {
        let command = try MigrateCommand(
            parse("--source=a", "b", "--all-tables", "--pace=gentle", "--budget=5ms")
        )
        #expect(command.run.pace == .gentle)
        #expect(command.run.budget == .milliseconds(5))
        let paces: [(String, MigrationPace)] = [("fast", .fast), ("steady", .steady), ("gentle", .gentle)]
        for (name, pace) in paces { #expect(try MigrateCommand(parse("b", "--pace", name)).run.pace == pace) }
        #expect(throws: UsageError.self) { try MigrateCommand(parse("b", "--pace=slow")) }
        #expect(throws: UsageError.self) { try MigrateCommand(parse("b", "--budget=soon")) }
        #expect(throws: UsageError.self) { try MigrateCommand(parse("--source=b")) }
    }

    @Test func theHelpOfEachCommandNamesItsOptions() {
        for command in Tool.commands {
            let text = HelpText.text(of: command.spec)
            for option in command.spec.allOptions { #expect(text.contains("--\(option.name)")) }
            #expect(text.split(separator: "\n").filter { !$0.hasPrefix("USAGE") }.allSatisfy { $0.count <= 120 })
        }
    }
}
