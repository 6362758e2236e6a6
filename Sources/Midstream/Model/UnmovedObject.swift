/// Something of a source that has not arrived in the target, and would be lost with the source.
public struct UnmovedObject: Sendable, Hashable {
    /// What it is.
    public enum Kind: String, Sendable {
        /// A table.
        case table
        /// A virtual table, with the tables in which it keeps its content.
        case virtualTable = "virtual table"
        /// A view.
        case view
        /// A trigger.
        case trigger
        /// A number that is stored in the file's header: `user_version` or `application_id`.
        case pragma
    }

    /// What it is.
    public var kind: Kind
    /// Its name, by which `givingUp` names it; that of the pragma where it is a number in the file's header.
    public var name: String
    /// Why it is not in the target.
    public var reason: String
}

extension UnmovedObject: CustomStringConvertible {
    /// What it is, its name, and why it has not arrived.
    public var description: String {
        (kind == .pragma ? "PRAGMA \(name)" : "\(kind.rawValue) \(name)") + " (\(reason))"
    }
}
