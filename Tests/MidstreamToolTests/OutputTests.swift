import SQLiteConnection
import Testing

@testable import MidstreamTool

@Suite struct OutputTests {
    @Test func numbersInJSONAreExact() {
        #expect(JSON(Int64.min).text == "-9223372036854775808")
        #expect(JSON(1.0).text == "1.0")
        #expect(JSON(0.1).text == "0.1")
        #expect(JSON(-0.0).text == "-0.0")
        #expect(JSON(Double.infinity).text == "1e999")
        #expect(JSON(-Double.infinity).text == "-1e999")
        for value in [1e20, 1e-7, Double.leastNonzeroMagnitude, Double.greatestFiniteMagnitude, 1 / 3.0] {
            #expect(Double(JSON(value).text) == value)
        }
    }

    @Test func textInJSONIsEscaped() {
        #expect(JSON("a\"b\\c\n\t\r\u{1}\u{0}é👍").text == #""a\"b\\c\n\t\r\u0001\u0000é👍""#)
    }

    @Test func valuesOfSQLiteInJSON() {
        let values: [SQLiteValue] = [.null, .integer(-3), .real(2), .text("x"), .blob([0, 255])]
        #expect(JSON(array: values.map { JSON($0) }).text == #"[null,-3,2.0,"x",{"blob":"00ff"}]"#)
    }

    @Test func numbersForPeople() {
        #expect(NumberText.grouped(0) == "0")
        #expect(NumberText.grouped(999) == "999")
        #expect(NumberText.grouped(-1_234_567) == "-1,234,567")
        #expect(NumberText.fixed(1.005, 1) == "1.0")
        #expect(NumberText.fixed(0.096, 2) == "0.10")
        #expect(NumberText.percent(0.5) == "50.0 %")
        #expect(NumberText.seconds(.milliseconds(1234)) == "1.23 s")
        #expect(NumberText.seconds(.seconds(65)) == "1 min 5 s")
        #expect(NumberText.seconds(.seconds(3700)) == "1 h 1 min")
    }

    @Test func theBarIsAsWideAsTheTerminalAndNothingIsCutOff() {
        let parts = ["50.0 %", "100,000 of 200,000 rows", "61,000 rows/s", "1.60 s left"]
        func bar(_ width: Int) -> String { ProgressText.bar(parts, 0.5, width) }
        let all = "  50.0 %  100,000 of 200,000 rows  61,000 rows/s  1.60 s left"
        #expect(bar(80) == "[" + String(repeating: "#", count: 8) + String(repeating: "-", count: 8) + "]" + all)
        #expect(bar(100).hasSuffix(all) && bar(100).count == 99)
        #expect(bar(300).hasPrefix("[" + String(repeating: "#", count: 30) + String(repeating: "-", count: 30) + "]"))
        #expect(bar(69).hasSuffix(all) && bar(69).count == 68)
        #expect(bar(68).hasSuffix("]  50.0 %  100,000 of 200,000 rows  1.60 s left") && bar(68).count == 67)
        #expect(bar(45) == "[##########-----------]  50.0 %  1.60 s left")
        #expect(bar(24) == "50.0 %  1.60 s left")
        #expect(bar(10) == "50.0 %  1")
        #expect(bar(0) == "" && ProgressText.bar(["counting rows"], nil, 80) == "counting rows")
        let waiting = ["100.0 %", "waiting for connections that still read an earlier state"]
        #expect(ProgressText.bar(waiting, 1, 80).hasSuffix(waiting.joined(separator: "  ")))
    }

    @Test func theListFormatIsThatOfTheShell() throws {
        let sql = """
            SELECT 1, -2, 1.0, 0.1, 1e20, 1e-5, 123456789012345678, 1.0/3, 1e999, -1e999, NULL, '', 'a|b', x'414243', 'é';
            SELECT x'410042', 'a' || char(0) || 'b', 'line' || char(10) || 'feed', 100000000000000.0, 1e15, 1e16;
            SELECT 3 WHERE 0;
            VALUES (1, 2), (3, 4);
            """
        let folder = TestFolder()
        let shell: Subprocess.Result
        do {
            shell = try Subprocess.run("sqlite3", [folder.file("a.db")], input: sql)
        } catch {
            print("sqlite3 is not installed, so its list mode is not compared")
            return
        }
        let own = try BuiltTool.run("sql", folder.file("b.db"), input: sql)
        #expect(own.output == shell.output)
        #expect(own.error.isEmpty && own.status == 0)
    }
}
