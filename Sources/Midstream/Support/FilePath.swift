internal import CFileStatus

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Operations on files and on their paths as text.
enum FilePath {
    /// Whether a file or folder exists at the path.
    static func exists(_ path: String) -> Bool {
        access(path, F_OK) == 0
    }

    /// Whether nothing exists at the path. `false` also when the path cannot be looked at.
    static func isGone(_ path: String) -> Bool {
        access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)
    }

    /// Whether the process may write a file.
    static func isWritable(_ path: String) -> Bool {
        faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0
    }

    /// Whether the process may read a file.
    static func isReadable(_ path: String) -> Bool {
        faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0
    }

    /// Removes a file; `false` when it cannot be removed.
    static func remove(_ path: String) -> Bool {
        unlink(path) == 0
    }

    /// Overwrites a file with zeros, and syncs the file to the disk.
    static func overwrite(_ path: String) -> Bool {
        let file = open(path, O_WRONLY)
        guard file >= 0 else { return false }
        defer { close(file) }
        var left = Int(lseek(file, 0, SEEK_END))
        guard left >= 0, lseek(file, 0, SEEK_SET) == 0 else { return false }
        let zeros = [UInt8](repeating: 0, count: 1 << 20)
        while left > 0 {
            let count = write(file, zeros, min(left, zeros.count))
            guard count > 0 else { return false }
            left -= count
        }
        return fsync(file) == 0
    }

    /// Gives a file another name in the same folder. The new name is on the disk when the call returns, unless the folder cannot be
    /// synced.
    static func rename(_ path: String, to name: String) -> Bool {
        #if canImport(Glibc)
            guard Glibc.rename(path, name) == 0 else { return false }
        #elseif canImport(Darwin)
            guard Darwin.rename(path, name) == 0 else { return false }
        #else
            guard Musl.rename(path, name) == 0 else { return false }
        #endif
        let folder = open(split(path).folder, O_RDONLY)
        guard folder >= 0 else { return true }
        defer { close(folder) }
        fsync(folder)
        return true
    }

    /// The path without links and dots. For a file that does not exist, the result is the folder's real path and the path's last
    /// part. A link to a missing file is followed, as SQLite does when it creates the file.
    static func resolved(_ path: String) -> String { resolved(path, links: 40) }

    private static func resolved(_ path: String, links: Int) -> String {
        if let real = realpath(path, nil) {
            defer { free(real) }
            return String(cString: real)
        }
        let (folder, name) = split(path)
        if links > 0, let destination = destination(ofLink: path) {
            let isAbsolute = destination.utf8.first == separator
            return resolved(isAbsolute ? destination : folder + "/" + destination, links: links - 1)
        }
        // The folder may be missing as well.
        guard folder != path else { return path }
        let parent = resolved(folder, links: links)
        return parent == "/" ? "/" + name : parent + "/" + name
    }

    static func isLink(_ path: String) -> Bool { destination(ofLink: path) != nil }

    private static func destination(ofLink path: String) -> String? {
        let text = [CChar](unsafeUninitializedCapacity: Int(PATH_MAX)) { buffer, count in
            count = buffer.baseAddress.map { max(0, readlink(path, $0, buffer.count)) } ?? 0
        }
        return text.isEmpty ? nil : String(validating: text, as: UTF8.self)
    }

    /// Splits a path into the folder (`.` when there is none) and the last part.
    static func split(_ path: String) -> (folder: String, name: String) {
        // Swift takes a slash and a combining mark after it for one character, so this compares bytes.
        guard let slash = path.utf8.lastIndex(of: separator) else { return (".", path) }
        let folder = String(path.utf8[..<slash]) ?? ""
        return (folder.isEmpty ? "/" : folder, String(path.utf8[path.utf8.index(after: slash)...]) ?? "")
    }

    /// `path` relative to the folder of `file`. Both must be resolved.
    static func relative(_ path: String, toFolderOf file: String) -> String {
        let target = path.utf8.split(separator: separator)
        let base = split(file).folder.utf8.split(separator: separator)
        // Bytes are compared: two folders may have different names that are equal to Swift.
        let common = zip(target, base).prefix { $0.elementsEqual($1) }.count
        let up = Array(repeating: "..", count: base.count - common)
        return (up + target[common...].compactMap { String($0) }).joined(separator: "/")
    }

    private static let separator = UInt8(ascii: "/")

    /// The path that `relative` means when it is relative to the folder of `file`.
    static func absolute(_ relative: String, fromFolderOf file: String) -> String {
        relative.hasPrefix("/") ? relative : resolved(split(file).folder + "/" + relative)
    }

    /// Whether a file exists that has more than `bytes` bytes.
    static func hasContent(_ path: String, beyond bytes: Int = 0) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_size > bytes
    }

    /// What the file system says of a file.
    struct Status: Equatable {
        struct Time: Equatable {
            var seconds: Int
            var nanoseconds: Int
        }

        var identity: FileIdentity
        var size: Int64
        /// When the file's bytes were last changed.
        var modified: Time
        /// When the file's bytes, name or permissions were last changed.
        var changed: Time
    }

    /// The file's status.
    ///
    /// - Returns: `nil` when the file does not exist, or cannot be looked at.
    static func status(_ path: String) -> Status? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        #if canImport(Darwin)
            let (modified, changed) = (status.st_mtimespec, status.st_ctimespec)
        #else
            let (modified, changed) = (status.st_mtim, status.st_ctim)
        #endif
        return Status(
            identity: FileIdentity(device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino)),
            size: Int64(status.st_size),
            modified: Status.Time(seconds: Int(modified.tv_sec), nanoseconds: Int(modified.tv_nsec)),
            changed: Status.Time(seconds: Int(changed.tv_sec), nanoseconds: Int(changed.tv_nsec))
        )
    }

    /// The first bytes of a file; `nil` when it cannot be read.
    static func head(_ path: String, bytes count: Int) -> [UInt8]? {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: count)
        let found = read(file, &bytes, count)
        return found < 0 ? nil : Array(bytes.prefix(found))
    }

    /// Distinguishes a file from all other files that exist now; `nil` when the file does not exist.
    static func identity(_ path: String) -> FileIdentity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return FileIdentity(device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino))
    }

    /// Distinguishes a file from all others, for later processes too, including files that were or will be at the same path. The
    /// inode alone is not enough: a new file may get the inode of a deleted one. Nor is the device, which may get another number.
    /// `nil` when the file does not exist.
    static func lastingIdentity(_ path: String) -> String? {
        guard let file = identity(path) else { return nil }
        var (seconds, nanoseconds): (Int64, Int64) = (0, 0)
        guard midstream_file_birth(path, &seconds, &nanoseconds) != 0 else { return "\(file.device):\(file.inode)" }
        return "\(file.inode):\(seconds):\(nanoseconds)"
    }
}

/// Identifies a file, whatever its names.
struct FileIdentity: Hashable {
    var device: UInt64
    var inode: UInt64
}
