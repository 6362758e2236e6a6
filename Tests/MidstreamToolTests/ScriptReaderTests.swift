import Testing

@testable import MidstreamTool

@Suite struct ScriptReaderTests {
    /// All items of a text that comes in pieces of the given number of bytes.
    private func items(_ text: String, pieces: Int = 65_536) throws -> [ScriptItem] {
        try items(Array(text.utf8), pieces: pieces)
    }

    private func items(_ bytes: [UInt8], pieces: Int = 65_536) throws -> [ScriptItem] {
        var rest = bytes[...]
        var reader = ScriptReader {
            defer { rest = rest.dropFirst(pieces) }
            return Array(rest.prefix(pieces))
        }
        var items: [ScriptItem] = []
        while let item = try reader.next() { items.append(item) }
        return items
    }

    @Test func statementsAndDotLinesAreToldApartHoweverTheyComeIn() throws {
        let text = """
            -- first
            SELECT 1; SELECT ';' -- not here;
            ;
            .step rows 3
            /* a
            .step
            ; */ ;; UPDATE t
            .5;
            CREATE TRIGGER x AFTER INSERT ON t BEGIN
              SELECT 1;
            END;
              .drain
            ;.step
            .status \t
            SELECT 2
            """
        let wanted: [ScriptItem] = [
            .statement("SELECT 1", line: 2), .statement("SELECT ';'", line: 2), .command(".step rows 3", line: 4),
            .statement("UPDATE t\n.5", line: 7),
            .statement("CREATE TRIGGER x AFTER INSERT ON t BEGIN\n  SELECT 1;\nEND", line: 9),
            .statement(".drain", line: 12), .statement(".step\n.status \t\nSELECT 2", line: 13),
        ]
        for pieces in [1, 2, 7, 64, 65_536] { #expect(try items(text, pieces: pieces) == wanted, "\(pieces) bytes") }
    }

    @Test func blankLinesAndCommentsAreNoStatements() throws {
        #expect(try items("").isEmpty)
        #expect(try items("\n \n-- a\n/* b */\n;;\n").isEmpty)
        #expect(try items("-- a\n.quit") == [.command(".quit", line: 2)])
        #expect(try items("/* open\n.step\n").isEmpty)
    }

    @Test func carriageReturnsAndAMissingLineFeedDoNotMatter() throws {
        #expect(
            try items("SELECT 1;\r\n.step\r\nSELECT 2") == [
                .statement("SELECT 1", line: 1), .command(".step", line: 2), .statement("SELECT 2", line: 3),
            ]
        )
    }

    /// Such bytes would be written as other bytes.
    @Test func bytesThatAreNoTextAreToldStatementByStatement() throws {
        var bytes = Array("SELECT 'é😀';\nINSERT INTO t\nVALUES ('".utf8)
        bytes += [0xff, 0xc3] + Array("'); SELECT 2; SELECT '".utf8)
        bytes += [0xe2, 0x82] + Array("';SELECT 3;\nSELECT '".utf8) + [0] + Array("';\n.step\n-- ".utf8) + [0xe9]
        bytes += Array("\nSELECT 4".utf8)
        let wanted: [ScriptItem] = [
            .statement("SELECT 'é😀'", line: 1), .unreadable("INSERT INTO t\nVALUES ('\u{fffd}\u{fffd}')", line: 2),
            .statement("SELECT 2", line: 3), .unreadable("SELECT '\u{fffd}'", line: 3), .statement("SELECT 3", line: 3),
            .unreadable("SELECT '\0'", line: 4), .command(".step", line: 5), .statement("SELECT 4", line: 7),
        ]
        for pieces in [1, 2, 7, 64, 65_536] { #expect(try items(bytes, pieces: pieces) == wanted, "\(pieces) bytes") }
    }

    @Test func aStatementIsHandedOutBeforeMoreIsRead() throws {
        var reads = 0
        var reader = ScriptReader {
            reads += 1
            return reads == 1 ? Array("SELECT 1;\n".utf8) : nil
        }
        #expect(try reader.next() == .statement("SELECT 1", line: 1))
        #expect(reads == 1)
        #expect(try reader.next() == nil)
    }

    @Test func dotCommandsAreChecked() throws {
        #expect(try DotCommand(".step") == .step(rows: nil))
        #expect(try DotCommand(".step rows 12") == .step(rows: 12))
        #expect(try DotCommand(".drain") == .drain)
        for text in [".step rows", ".step rows x", ".step rows 0", ".step 3", ".drain now", ".stat", "."] {
            #expect(throws: CommandFailure.self, "\(text)") { try DotCommand(text) }
        }
    }
}
