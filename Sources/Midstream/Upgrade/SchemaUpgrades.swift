/// The steps by which a database's schema has come to be what it is: each with a name, run once in each file, in their order.
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
/// A step and the record that it has run are one transaction, so a process that dies leaves a whole step or none of it. Never
/// change a step that users have run, nor its name: add another.
public struct SchemaUpgrades: Sendable {
    /// One change of the schema.
    public struct Step: Sendable {
        /// What it is known by in the file.
        public let name: String
        /// The number that `PRAGMA user_version` has from then on; `nil` where it stays.
        public let version: Int64?
        let body: @Sendable (DatabaseAccess) throws -> Void
    }

    /// The steps in their order.
    public private(set) var steps: [Step] = []
    /// Names of steps that older builds had, and that this one needs no more: files that have run them are not newer. Where this
    /// build is the first to record a file's steps, they count as run, so that an older build does not run them.
    public var retiredSteps: Set<String> = []
    /// Creates the newest schema in a file that has no table yet, in the place of all steps. `nil`, as at first: the steps
    /// run there, too. `MidstreamTesting` proves that both come to the same.
    public var freshSchema: (@Sendable (DatabaseAccess) throws -> Void)?
    /// The version of a file that has none of this package's records yet, where the application has kept it in a way of its
    /// own. `nil`, as at first, and where it gives `nil`: the names that GRDB has recorded in `grdb_migrations`, or
    /// `PRAGMA user_version`, tell which steps have run.
    ///
    /// It is asked until the first step, or the first call that has nothing to do, has recorded the answer. All steps up to the
    /// last one with at most that version count as run.
    public var versionBefore: (@Sendable (DatabaseAccess) throws -> Int64?)?
    /// What is done with a file that a newer build has upgraded, with the names of the steps that this one does not know.
    /// `nil`, as at first: it is refused with ``MigrationError/Code/newerSchema``.
    ///
    /// It runs in a transaction, and must leave the schema that the steps of this build make: they count as run from then on.
    public var onNewerSchema: (@Sendable (DatabaseAccess, [String]) throws -> Void)?

    /// Makes an empty sequence.
    public init() {}

    /// Adds a step behind the others.
    ///
    /// - Parameters:
    ///   - name: What it is known by in the file, other than all others.
    ///   - version: A number for `PRAGMA user_version`, larger than those before.
    ///   - body: Changes the schema, in a transaction that writes. What it throws undoes the step.
    public mutating func add(
        _ name: String,
        version: Int64? = nil,
        _ body: @escaping @Sendable (DatabaseAccess) throws -> Void
    ) {
        steps.append(Step(name: name, version: version, body: body))
    }

    /// - Throws: ``MigrationError`` when names or versions do not make a sequence.
    func check() throws {
        var names = retiredSteps
        var last: Int64?
        for step in steps {
            guard names.insert(step.name).inserted else {
                throw MigrationError(.misuse, "two steps have the name \(step.name): give each one of its own")
            }
            if let version = step.version {
                guard version > last ?? 0, version <= Int64(Int32.max) else {
                    throw MigrationError(
                        .misuse,
                        "step \(step.name) must have a version above \(last ?? 0), and not above \(Int32.max): SQLite keeps it in 32 "
                            + "bits"
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
    /// Whether ``SchemaUpgrades/freshSchema`` took their place.
    public internal(set) var isFresh = false
    /// The tables that were rebuilt.
    public internal(set) var rebuilt: [RebuiltTable] = []
}
