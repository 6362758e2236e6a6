import CLibFuzzer
import OutlineChecks
import SQLText

/// Outlines the parts with the one in the middle repeated: quadratic work takes so long that libFuzzer reports it, and
/// recursion without limit overflows the stack.
func outlineLong(_ parts: [String]) {
    let count = 40_000 / parts[1].utf8.count
    let text = parts[0] + String(repeating: parts[1], count: max(count, 1)) + parts[2]
    var end = 0
    for outline in SQLScript(text) {
        precondition(outline.endOffset > end)
        end = outline.endOffset
    }
}

var argumentCount = CommandLine.argc
var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv

// Each input is a text, or three parts of which a long or deep text is made.
let status = LLVMFuzzerRunDriver(&argumentCount, &arguments) { data, size in
    // 0xFF is in no text.
    let parts = UnsafeBufferPointer(start: data, count: size)
        .split(separator: 0xFF, maxSplits: 2, omittingEmptySubsequences: false)
        .map { String(decoding: $0, as: UTF8.self) }
    if parts.count == 3, !parts[1].isEmpty { outlineLong(parts) }
    let text = parts.joined()
    let problems = OutlineCheck.problems(in: text)
    if !problems.isEmpty { fatalError(problems.joined(separator: "\n") + "\nin \(text.debugDescription)") }
    return 0
}
precondition(status == 0)
