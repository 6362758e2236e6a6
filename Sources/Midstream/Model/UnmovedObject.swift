/// An object of a source that has not arrived in the target, and would be lost with the source.
public struct UnmovedObject: Sendable, Hashable {
    /// The kinds of objects.
    public enum Kind: String, Sendable {
        /// A table.
        case table
        /// A virtual table, together with the tables that hold its content.
        case virtualTable = "virtual table"
        /// A view.
        case view
        /// A trigger.
        case trigger
        /// A number in the file's header: `user_version` or `application_id`.
        case pragma
    }

    /// What kind of object it is.
    public var kind: Kind
    /// The object's name, which `givingUp` uses for it. For a number in the file's header, the name of the pragma.
    public var name: String
    /// Why the object is not in the target.
    public var reason: String
}

extension UnmovedObject: CustomStringConvertible {
    /// The object's kind and name, and why it has not arrived.
    public var description: String {
        (kind == .pragma ? "PRAGMA \(name)" : "\(kind.rawValue) \(name)") + " (\(reason))"
    }
}
