internal import CBaseline
internal import Midstream
internal import SQLiteConnection

/// A connection that other code opened, with the overlay.
enum Guest {
    nonisolated(unsafe) private static var handle: UnsafeMutableRawPointer?

    static func open(_ path: String) throws -> Connection {
        guard let opened = baseline_connection_open(path) else {
            throw SQLiteError(code: .cannotOpen, message: "the guest's connection cannot be opened")
        }
        handle = opened
        let connection = Connection(borrowing: OpaquePointer(opened))
        try MigrationOverlay.install(on: OpaquePointer(opened))
        return connection
    }

    /// Removes the tables from the overlay that have moved, as applications do when it suits them.
    static func refresh() throws {
        if let handle { try MigrationOverlay.installed(on: OpaquePointer(handle))?.refresh() }
    }

    static func close() {
        if let handle { baseline_connection_close(handle) }
        handle = nil
    }
}
