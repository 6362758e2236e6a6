internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

/// A folder for the databases, which is removed with the object.
final class WorkFolder {
    let path: String

    init(below parent: String) throws {
        var template = Array("\(parent)/midstream-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw SQLiteError(code: .cannotOpen, message: "cannot make a folder below \(parent)")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        removeFiles()
        rmdir(path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Removes a database with its journals.
    func remove(_ name: String) {
        for suffix in ["", "-wal", "-shm", "-journal"] { unlink(file(name) + suffix) }
    }

    /// Copies a database that nobody has open.
    func copy(_ name: String, to copy: String) throws {
        guard let input = fopen(file(name), "r"), let output = fopen(file(copy), "w") else {
            throw SQLiteError(code: .cannotOpen, message: "cannot copy \(name) to \(copy)")
        }
        defer { fclose(input) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var isWritten = true
        while isWritten, case let count = fread(&buffer, 1, buffer.count, input), count > 0 {
            isWritten = fwrite(buffer, 1, count, output) == count
        }
        guard fclose(output) == 0, isWritten else {
            throw SQLiteError(code: .full, message: "cannot copy \(name) to \(copy)")
        }
    }

    /// The size of a file in bytes; 0 if there is no file.
    static func size(of path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }

    private func removeFiles() {
        guard let folder = opendir(path) else { return }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            unlink(file(name))
        }
    }
}
