/// The steps by which a database's schema has become what it is. Each step has a name, and runs once in each file, in
/// the order of the steps.
///
///     var upgrades = SchemaUpgrades()
///     upgrades.add("messages") { access in
///         try access.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT)")
///     }
///     upgrades.add("messages have a time") { access in
///         try access.rebuild("messages") { table in
///             table.schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, sent REAL)"
///             table.columns["sent"] = .defaultValue
///         }
///     }
///     try database.upgrade(upgrades)
///
/// A step and the record that it has run are one transaction, so a process that dies leaves a whole step or none of it.
/// Never change a step that users have run, nor its name: add another step.
public struct SchemaUpgrades: Sendable {
    /// One change of the schema.
    public struct Step: Sendable {
        /// The name by which the file knows the step.
        public let name: String
        /// The number that the step gives to `PRAGMA user_version`; `nil` if the number stays.
        public let version: Int64?
        let body: @Sendable (DatabaseAccess) throws -> Void
    }

    /// The steps, in the order in which they run.
    public private(set) var steps: [Step] = []
    /// Names of steps that older builds had, and that this build no longer needs. A file that has run them does not
    /// count as newer. If this build is the first to record a file's steps, the retired steps count as run, so that an
    /// older build does not run them.
    public var retiredSteps: Set<String> = []
    /// Creates the newest schema in a file that has no table yet, in place of all steps. If it is `nil`, as at first,
    /// the steps run there, too. `MidstreamTesting` proves that both give the same schema.
    public var freshSchema: (@Sendable (DatabaseAccess) throws -> Void)?
    /// Gives the version of a file that has none of this package's records yet, if the application has kept the version
    /// in its own way. If it is `nil`, as at first, or gives `nil`, Midstream finds out which steps have run from the
    /// names that GRDB has recorded in `grdb_migrations`, or from `PRAGMA user_version`.
    ///
    /// Midstream asks for the version until the first step, or the first call that has nothing to do, has recorded the
    /// answer. All steps up to the last one with at most that version count as run.
    public var versionBefore: (@Sendable (DatabaseAccess) throws -> Int64?)?
    /// Says what is done with a file that a newer build has upgraded. It gets the names of the steps that this build
    /// does not know. If it is `nil`, as at first, the file is refused with ``MigrationError/Code/newerSchema``.
    ///
    /// It runs in a transaction, and must leave the schema that the steps of this build make. These steps count as run
    /// from then on.
    public var onNewerSchema: (@Sendable (DatabaseAccess, [String]) throws -> Void)?

    /// Makes an empty sequence.
    public init() {}

    /// Adds a step after the others.
    ///
    /// - Parameters:
    ///   - name: The name by which the file knows the step. It must differ from all other names.
    ///   - version: A number for `PRAGMA user_version`, larger than those before.
    ///   - body: Changes the schema, in a transaction that writes. If it throws, the step is undone.
    public mutating func add(
        _ name: String,
        version: Int64? = nil,
        _ body: @escaping @Sendable (DatabaseAccess) throws -> Void
    ) {
        steps.append(Step(name: name, version: version, body: body))
    }

    /// - Throws: ``MigrationError`` if names or versions do not make a sequence.
    func check() throws {
        var names = retiredSteps
        var last: Int64?
        for step in steps {
            guard names.insert(step.name).inserted else {
                throw MigrationError(.misuse, "two steps have the name \(step.name): give each step its own name")
            }
            if let version = step.version {
                guard version > last ?? 0, version <= Int64(Int32.max) else {
                    throw MigrationError(
                        .misuse,
                        "step \(step.name) must have a version above \(last ?? 0), and not above \(Int32.max): SQLite "
                            + "stores it in 32 bits"
                    )
                }
                last = version
            }
        }
    }

    /// The steps up to the last one with at most that version.
    func steps(upTo version: Int64) -> ArraySlice<Step> {
        let last = steps.lastIndex { $0.version.map { $0 <= version } ?? false }
        return last.map { steps[...$0] } ?? []
    }
}

/// What an upgrade has done, or would do.
public struct UpgradeReport: Sendable, Hashable {
    /// The names of the steps that have run, in their order.
    public internal(set) var steps: [String] = []
    /// Whether ``SchemaUpgrades/freshSchema`` took the place of the steps.
    public internal(set) var isFresh = false
    /// The tables that were rebuilt.
    public internal(set) var rebuilt: [RebuiltTable] = []
}
